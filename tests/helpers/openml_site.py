"""openml.org on this machine: small files of its format, served in the place of the network."""

import gzip
import hashlib
import io
import json
from urllib.error import URLError
from urllib.parse import urlparse

import numpy as np

ROWS = 12


class Site:
    """openml.org with one set of `ROWS` images: what it answers, and what it was asked."""

    def __init__(self, name, pixels, labels=None, rows=ROWS):
        self.name, self.asked = name, []
        self.pixels = np.random.default_rng(0).integers(0, 256, (rows, pixels))
        self.labels = np.arange(rows) % 10 if labels is None else labels
        columns = [f"pixel{k + 1}" for k in range(pixels)]
        head = [f"@RELATION {name}", *(f"@ATTRIBUTE {column} REAL" for column in columns)]
        named = ",".join(map(str, np.unique(self.labels)))
        lines = [
            ",".join(map(str, [*row_, label])) for row_, label in zip(self.pixels, self.labels, strict=True)
        ]
        self.file = "\n".join([*head, f"@ATTRIBUTE class {{{named}}}", "@DATA", *lines, ""]).encode()
        flags = {"is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0"}
        features = [
            {"index": str(k), "name": column, "data_type": "numeric", "is_target": "false", **flags}
            for k, column in enumerate(columns)
        ]
        target = {"index": str(pixels), "name": "class", "data_type": "nominal", "is_target": "true", **flags}
        self.description = {
            "id": "7", "name": name, "version": "1", "format": "ARFF", "status": "active", "description": "",
            "url": "https://www.openml.org/data/v1/download/70/set.arff", "file_id": "70",
            "md5_checksum": hashlib.md5(self.file).hexdigest(),
        }  # fmt: skip
        self.features = {"data_features": {"feature": [*features, target]}}

    def answer(self, path):
        if path.endswith("/set.arff"):
            return self.file
        if "/data/list/" in path:
            assert f"/data_name/{self.name.lower()}/" in path
            assert path.endswith("/data_version/1")
            found = {"data": {"dataset": [{"did": 7, "name": self.name, "version": 1, "status": "active"}]}}
        elif "/features/" in path:
            found = self.features
        elif "/qualities/" in path:
            found = {
                "data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(len(self.labels))}]}
            }
        else:
            found = {"data_set_description": self.description}
        return json.dumps(found).encode()

    def open(self, request, *_, **__):
        path = urlparse(request.full_url).path
        self.asked.append(path)
        answer = io.BytesIO(gzip.compress(self.answer(path)))
        answer.info = lambda: {"Content-Encoding": "gzip"}
        return answer


def no_network(*_, **__):
    raise URLError("no route to host")
