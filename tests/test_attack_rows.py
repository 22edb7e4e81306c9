"""Which test stands for which row of data/attack-ideas.json, in the areas of servers behind us."""

import ast
import json
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
AREAS = {"names", "liveness", "env", "args"}
ROWS: dict[str, tuple[str, ...]] = {
    "A01": (
        "test_pool.py::test_a_built_in_wins_over_an_upstream_tool_of_the_same_name",
        "policy/test_bypasses.py::"
        "test_a_server_that_calls_its_tool_like_a_built_in_gets_none_of_its_rules",
        "test_deferral.py::test_an_upstream_tool_named_tool_search_is_not_taken_for_ours",
    ),
    "A02": (
        "test_pool.py::"
        "test_the_earlier_configured_server_wins_and_the_loser_stays_callable_by_its_rule_name",
        "test_pool.py::test_the_order_in_which_servers_came_up_does_not_change_the_list",
        "test_upstream_config.py::test_an_ambiguous_name_is_refused_with_a_better_one",
    ),
    "A03": (
        "test_upstream_config.py::test_an_ambiguous_name_is_refused_with_a_better_one",
        "policy/test_decisions.py::test_a_rule_covers_the_names_it_means",
    ),
    "A04": ("policy/test_decisions.py::test_a_rule_covers_the_names_it_means",),
    "A05": (
        "test_upstream_tool.py::test_a_look_alike_shares_no_name_with_what_it_looks_like",
        "test_upstream_tool.py::test_a_name_that_cannot_be_shown_costs_one_tool_and_no_other",
        "policy/test_decisions.py::test_a_rule_covers_the_names_it_means",
    ),
    "A06": (
        "policy/test_decisions.py::test_a_rule_covers_the_names_it_means",
        "policy/test_grammar.py::"
        "test_a_rule_that_misses_a_server_by_the_case_of_a_letter_is_reported",
        "policy/test_grammar.py::test_a_rule_that_misses_a_tool_by_the_case_of_a_letter_is_reported",
        "test_serve_wire.py::"
        "test_a_rule_that_misses_a_tool_by_the_case_of_a_letter_is_told_with_the_first_list",
    ),
    "A07": (
        "test_upstream_tool.py::test_a_name_that_cannot_be_shown_costs_one_tool_and_no_other",
        "test_pool.py::test_every_exposed_name_fits_every_client",
        "policy/test_bypasses.py::"
        "test_a_tool_with_a_name_that_means_something_elsewhere_is_an_ordinary_tool",
    ),
    "A08": (
        "test_serve_deferral.py::test_no_spelling_of_a_denied_name_finds_activates_or_calls_it",
        "test_serve_deferral.py::"
        "test_rules_hooks_and_questions_are_about_the_call_inside_the_envelope",
    ),
    "A09": (
        "test_upstream_pins.py::test_a_swapped_tool_is_told_with_what_changed",
        "test_upstream_catalogue.py::test_a_call_that_was_judged_by_an_old_definition_is_not_sent",
        "test_asking.py::test_an_upstream_tool_that_changed_is_asked_again",
        "policy/test_bypasses.py::test_what_a_server_says_of_its_own_tool_allows_nothing",
    ),
    "A10": (
        "test_upstream_supervisor.py::"
        "test_ten_thousand_notices_of_a_changed_list_cost_one_list_per_interval",
        "test_upstream_connection.py::test_a_cursor_that_comes_back_ends_the_list",
        "test_upstream_parts.py::test_a_list_is_cut_at_the_most_tools",
        "test_upstream_parts.py::test_an_endless_list_ends",
    ),
    "A11": (
        "test_upstream_texts.py::"
        "test_hidden_characters_are_shown_wherever_a_person_or_a_model_reads",
        "test_upstream_texts.py::test_a_description_without_end_has_one",
        "test_tool_search.py::test_no_description_can_close_the_block_it_stands_in",
    ),
    "A49": (
        "test_upstream_supervisor.py::test_a_mute_server_holds_nobody_up",
        "test_upstream_supervisor.py::test_a_list_that_never_comes_is_a_failed_start",
        "test_upstream_http.py::"
        "test_a_server_that_trickles_its_greeting_is_down_after_its_deadline",
        "test_upstream_catalogue.py::test_a_client_that_got_the_old_list_is_told_of_the_new_one",
    ),
    "A50": (
        "test_upstream_connection.py::test_progress_without_end_does_not_extend_the_time_of_a_call",
        "test_upstream_connection.py::test_an_answer_that_comes_too_late_reaches_nobody",
        "test_upstream_connection.py::"
        "test_a_call_over_its_time_is_cancelled_and_the_connection_stays",
    ),
    "A51": (
        "test_upstream_faults.py::"
        "test_calls_to_a_server_that_keeps_failing_fail_at_once_and_start_nothing",
        "test_upstream_supervisor.py::test_two_hundred_restarts_leave_no_process_and_no_descriptor",
        "test_upstream_parts.py::test_jitter_adds_up_to_half_and_stays_under_the_longest",
    ),
    "A52": (
        "test_upstream_connection.py::test_garbage_between_messages_is_skipped_and_counted",
        "test_upstream_http.py::test_only_the_answer_to_a_request_is_taken_from_its_stream",
    ),
    "A53": (
        "test_upstream_relay.py::test_only_what_the_client_declared_is_asked_of_it",
        "test_upstream_relay.py::test_a_question_that_may_be_of_two_clients_is_refused",
        "test_upstream_relay.py::test_a_flood_of_questions_ends",
        "test_upstream_connection.py::"
        "test_a_server_that_asks_for_ever_and_never_listens_is_given_up",
    ),
    "A54": (
        "test_upstream_faults.py::test_a_server_that_stops_reading_blocks_its_own_calls_only",
        "test_wire_process.py::test_a_client_that_does_not_read_costs_bounded_memory",
        "test_wire_stdio.py::"
        "test_a_client_that_reads_nothing_holds_up_new_calls_but_not_the_reading",
    ),
    "A55": (
        "test_upstream_faults.py::"
        "test_a_thousand_calls_with_cancels_and_deaths_get_one_answer_each",
        "test_upstream_faults.py::"
        "test_twenty_servers_of_which_five_are_broken_and_nothing_runs_twice",
    ),
    "A56": (
        "test_serve_wire.py::test_a_server_that_is_killed_leaves_no_process_behind",
        "test_serve_wire.py::test_a_client_that_disappears_ends_the_server_and_all_it_started",
        "test_serve_wire.py::test_a_signal_shuts_the_server_down_in_order",
    ),
    "A57": ("test_clocks.py::test_the_wall_clock_is_asked_for_dates_and_ages_only",),
    "A58": (
        "test_processes.py::"
        "test_the_baseline_has_what_a_program_needs_and_no_secret_of_anybody_else",
        "test_upstream_supervisor.py::test_a_child_sees_a_baseline_and_what_it_is_given",
        "test_hooks_command.py::test_the_environment_is_inherited_but_for_what_is_ours",
    ),
    "A59": (
        "test_upstream_config.py::test_variables_are_filled_in_as_plain_text_once",
        "test_upstream_config.py::test_an_unset_variable_stays_as_written_and_is_reported",
        "test_upstream_config.py::test_an_unset_variable_in_an_address_is_no_host",
    ),
    "A60": (
        "test_trust.py::test_cve_2025_59536_before_trust_a_workspace_can_only_tighten",
        "test_trust.py::"
        "test_the_servers_of_a_workspace_wait_for_trust_and_are_bound_to_what_they_start",
        "test_trust.py::"
        "test_cve_2026_21852_a_trusted_workspace_never_sets_endpoints_proxies_or_loaders",
    ),
    "A61": (
        "test_upstream_http.py::test_a_redirect_to_anything_else_is_not_followed",
        "test_upstream_http.py::test_nobody_at_another_origin_ever_sees_the_request_or_its_headers",
        "test_upstream_http.py::test_an_answer_that_is_none_fails_the_call",
        "test_upstream_events.py::test_what_never_ends_is_refused_at_the_limit",
    ),
    "A62": (
        "test_http_calls.py::test_the_id_of_a_session_cannot_be_guessed",
        "test_http_calls.py::test_sessions_share_nothing_up_to_2025_11_25",
        "test_http_door.py::test_an_unknown_session_is_not_found",
        "test_http_door.py::test_only_known_hosts_are_served",
        "test_http_door.py::test_only_known_origins_are_served",
        "test_http_start.py::test_localhost_is_an_ipv4_address_and_has_a_port_chosen",
    ),
    "A63": (
        "test_serve_calls.py::test_bad_arguments_are_told_with_their_paths_and_nothing_runs",
        "test_dispatcher.py::test_refusals_before_the_rules_fire_no_hook",
        "test_schema_compile.py::test_a_remote_reference_is_refused_and_never_requested",
        "test_schema_bounds.py::test_doubling_references_are_refused_at_once",
        "test_schema_messages.py::test_a_million_wrong_items_are_answered_with_the_first_of_them",
        "test_wire_codec.py::test_a_line_we_could_not_hand_on_is_refused",
    ),
    "A64": (
        "test_serve_arguments.py::test_rules_hooks_and_the_server_see_the_same_arguments",
        "test_upstream_connection.py::test_arguments_arrive_as_they_are",
    ),
    "A65": (
        "test_grep.py::test_values_that_look_like_options_are_values",
        "test_grep.py::test_hostile_strings_are_values_in_every_field",
        "test_glob.py::test_hostile_strings_never_lead_out_of_the_workspace",
        "policy/test_advisories.py::test_cve_2026_35020_a_file_name_is_never_shell_text",
    ),
}


def names_in(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


@pytest.mark.parametrize("row", ROWS)
def test_every_test_that_a_row_names_exists(row: str) -> None:
    named = [test.split("::") for test in ROWS[row]]

    assert named
    assert [[file, test] for file, test in named if test not in names_in(file)] == []


def test_every_row_of_these_areas_has_a_test(data_dir: Path) -> None:
    rows = json.loads((data_dir / "attack-ideas.json").read_text(encoding="utf-8"))

    assert {row["id"] for row in rows if row["area"] in AREAS} == ROWS.keys()
