"""A Dask cluster of two worker processes on this machine."""

import contextlib

import pytest


@contextlib.contextmanager
def two_workers(folder):
    """Yield a cluster; skip the test where Dask is not installed. Any free ports: tests run side by side."""
    distributed = pytest.importorskip("distributed", reason="Dask comes with the extra [distributed]")
    import dask

    patient = {
        "distributed.deploy.lost-worker-timeout": "1h"
    }  # or it removes one that is killed twice in 15 s
    with dask.config.set(patient), distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=str(folder),
        silence_logs=50,
    ) as cluster:  # fmt: skip
        yield cluster
