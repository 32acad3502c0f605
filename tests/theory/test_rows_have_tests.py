"""Every row of the table of theorems has a test, and the pages on theorems name files of tests that exist."""

import re
from pathlib import Path

import pytest

from deeplimit.theory.table import ROWS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "theorems").glob("*.md"))
TESTS = {
    "Diffusion": (
        "judge/test_convergence.py",
        "test_interval_contains_one_half_for_gaussian_res1_whatever_the_network",
    ),
    "DiffusionInLaw": ("papers/test_cases.py", "test_the_law_of_every_case_is_its_limits"),
    "IsotropicDiffusion": (
        "theory/test_isotropic.py",
        "test_one_layer_moves_by_the_variance_that_the_limit_has",
    ),
    "OtherProduct": ("judge/test_law_reports.py", "test_networks_without_a_known_limit_are_refused_by_name"),
    "NoiseOutside": ("theory/test_noise_outside.py", "test_the_order_is_one_half_and_another_path_is_caught"),
    "NoiseOutsideIdentity": (
        "theory/test_noise_outside.py",
        "test_above_the_exponent_the_order_is_the_predicted_one",
    ),
    "InnerIdentity": (
        "theory/test_isotropic.py",
        "test_above_the_critical_exponent_the_order_is_the_predicted_one",
    ),
    "AveragedLayers": (
        "theory/test_isotropic.py",
        "test_averaged_layers_have_order_one_half_and_the_wrong_mean_is_caught",
    ),
    "IndependentIdentity": (
        "theory/test_settings.py",
        "test_each_setting_has_the_regime_the_rate_and_the_statement_of_its_theorem",
    ),
    "IndependentExplosion": (
        "signal/test_stability_laws.py",
        "test_mean_squares_of_signal_and_gradient_are_the_closed_forms",
    ),
    "GrowthWithoutBound": (
        "theory/test_assumptions.py",
        "test_no_theorem_is_named_where_an_assumption_fails",
    ),
    "NeuralODEOfTime": (
        "judge/test_convergence.py",
        "test_interval_contains_one_for_smooth_weights_whatever_the_network",
    ),
    "SmoothIdentity": (
        "signal/test_stability_laws.py",
        "test_smooth_weights_at_exponent_2_change_like_one_over_the_depth",
    ),
    "SmoothVanishing": (
        "theory/test_assumptions.py",
        "test_above_exponent_one_functions_of_time_vanish_in_every_recursion",
    ),
    "SmoothExplosion": ("signal/test_stability_laws.py", "test_smooth_weights_explode_below_exponent_1"),
    "Young": (
        "equations/test_young.py",
        "test_with_the_identity_in_one_dimension_the_solution_is_the_paths_exponential",
    ),
    "ModifiedYoung": (
        "equations/test_young.py",
        "test_the_modified_network_has_the_better_order_on_the_same_paths",
    ),
    "FractionalIdentity": (
        "equations/test_young.py",
        "test_above_the_critical_exponent_the_network_tends_to_the_identity_at_its_order",
    ),
    "FractionalExplosion": (
        "equations/test_young.py",
        "test_every_network_with_fractional_weights_has_its_regime",
    ),
    "LinearisedODE": (
        "theory/test_exact_solutions.py",
        "test_networks_reach_the_matrix_exponential_at_the_order_of_the_tangents_error",
    ),
    "CorrectedDiffusion": (
        "theory/test_exact_solutions.py",
        "test_scalar_networks_reach_the_exact_solution_at_order_one_half_and_no_other",
    ),
    "LocalisedDiffusion": (
        "theory/test_explosion.py",
        "test_the_theorem_is_named_up_to_the_explosion_where_noise_moves_every_direction",
    ),
    "UnshrunkNeuralODE": ("theory/test_plane.py", "test_measured_orders_are_the_predicted_ones"),
    "ScaledNeuralODE": (
        "layers/test_fully_connected.py",
        "test_its_neural_ode_is_reached_at_order_one_and_not_without_delta",
    ),
    "ShrinkingIdentity": ("theory/test_plane.py", "test_the_plane_is_what_counting_powers_gives"),
    "ShrinkingExplosion": ("theory/test_plane.py", "test_the_plane_point_by_point"),
    "OffsetExplosion": (
        "theory/test_offset.py",
        "test_states_diverge_like_the_sum_of_what_layers_add_at_zero",
    ),
    "OffsetIdentity": ("theory/test_offset.py", "test_above_exponent_one_they_vanish_at_the_predicted_order"),
    "ColouredNoise": (
        "driving/test_autoregressive.py",
        "test_res1_tends_to_the_stretched_equation_with_its_drift",
    ),
    "ColouredIdentity": (
        "theory/test_assumptions.py",
        "test_layers_with_a_memory_tend_to_the_identity_and_to_nothing_else",
    ),
    "PreNormDiffusion": (
        "theory/test_prenorm.py",
        "test_with_the_identity_states_move_by_a_standard_normal_vector_at_every_depth",
    ),
    "PreNormDiffusionInLaw": ("papers/test_cases.py", "test_the_law_of_every_case_is_its_limits"),
    "PreNormODE": ("theory/test_prenorm.py", "test_every_exponent_has_its_statement"),
    "PreNormIdentity": (
        "theory/test_prenorm.py",
        "test_measured_orders_are_the_predicted_ones_and_without_the_norm_errors_stay",
    ),
    "PreNormClock": ("theory/test_prenorm.py", "test_mean_squares_grow_by_the_same_number_in_every_layer"),
    "ClusteringODE": ("theory/test_attention_rows.py", "test_the_clustering_ode_is_reached_at_order_one"),
    "NoisyAttention": (
        "theory/test_attention_rows.py",
        "test_the_noisy_transformer_is_reached_at_order_one_half",
    ),
    "NoisyAttentionInLaw": ("papers/test_cases.py", "test_the_law_of_every_case_is_its_limits"),
    "StillAttention": (
        "theory/test_attention_rows.py",
        "test_above_the_critical_exponents_tokens_stop_at_the_predicted_order",
    ),
    "ShapedCovariance": (
        "layers/test_shaped.py",
        "test_the_chain_has_the_law_of_networks_with_whole_matrices",
    ),
    "LinearCovariance": (
        "theory/test_shaped_rows.py",
        "test_slopes_that_vanish_faster_lead_to_the_linear_limit",
    ),
    "none": ("theory/test_no_false_theorem.py", "test_no_theorem_is_about_a_users_recursion"),
    "all": ("theory/test_table.py", "test_at_most_one_row_of_the_library_matches_any_network"),
}
"""By row of the table: the file and the test that check it; "none" and "all" are about the table itself."""


@pytest.mark.parametrize(("file", "test"), TESTS.values(), ids=list(TESTS))
def test_every_test_of_a_row_exists(file, test):
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {test}\(", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_on_a_theorem_names_files_of_tests_that_exist(page):
    named = re.findall(r"`(tests/[^`:]+)`", page.read_text(encoding="utf-8"))
    assert named
    assert [file for file in named if not (ROOT / file).exists()] == []


def test_every_row_of_the_table_has_a_test():
    assert {type(row).__name__ for row in ROWS} == TESTS.keys() - {"none", "all"}
