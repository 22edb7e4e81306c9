"""The tests of each row of data/attack-ideas.json, for the areas about upstream servers."""

import ast
import json
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
AREAS = {"names", "liveness", "env", "args"}
ROWS: dict[str, tuple[str, ...]] = {
    "A01": (
        "registry/test_registry.py::test_a_built_in_wins_over_an_upstream_tool_of_the_same_name",
        "policy/test_bypasses.py::"
        "test_rules_of_a_built_in_do_not_apply_to_a_server_tool_of_that_name",
        "registry/test_deferral.py::test_an_upstream_tool_named_tool_search_is_not_the_built_in_one",
    ),
    "A02": (
        "registry/test_registry.py::"
        "test_the_server_configured_first_wins_and_the_other_tool_is_callable_by_its_rule_name",
        "registry/test_registry.py::test_the_order_in_which_servers_connect_does_not_change_the_list",
        "upstream/config/test_load.py::test_an_ambiguous_name_is_refused_with_a_better_one",
    ),
    "A03": (
        "upstream/config/test_load.py::test_an_ambiguous_name_is_refused_with_a_better_one",
        "policy/test_decisions.py::test_a_rule_covers_the_tools_of_its_target",
    ),
    "A04": ("policy/test_decisions.py::test_a_rule_covers_the_tools_of_its_target",),
    "A05": (
        "upstream/test_tool.py::test_a_look_alike_name_gets_another_rule_name",
        "upstream/test_tool.py::test_an_unprintable_name_rejects_only_its_tool",
        "policy/test_decisions.py::test_a_rule_covers_the_tools_of_its_target",
    ),
    "A06": (
        "policy/test_decisions.py::test_a_rule_covers_the_tools_of_its_target",
        "policy/rules/test_parse.py::test_a_rule_whose_server_name_differs_by_case_is_reported",
        "policy/rules/test_parse.py::test_a_rule_whose_tool_name_differs_by_case_is_reported",
        "e2e/test_server_process.py::"
        "test_a_rule_that_differs_from_a_tool_only_in_case_is_reported_with_the_first_list",
    ),
    "A07": (
        "upstream/test_tool.py::test_an_unprintable_name_rejects_only_its_tool",
        "registry/test_registry.py::test_every_exposed_name_fits_every_client",
        "policy/test_bypasses.py::"
        "test_a_server_tool_with_the_name_of_a_claude_code_tool_is_an_ordinary_tool",
    ),
    "A08": (
        "e2e/test_deferral.py::test_no_spelling_of_a_denied_name_finds_activates_or_calls_it",
        "e2e/test_deferral.py::test_rules_hooks_and_questions_apply_to_the_call_inside_call_tool",
    ),
    "A09": (
        "upstream/test_definition_diff.py::test_a_swapped_tool_is_reported_with_its_differences",
        "upstream/test_upstreams.py::test_a_call_that_was_permitted_for_an_old_definition_is_not_sent",
        "pipeline/test_ask.py::test_an_upstream_tool_with_a_changed_definition_is_asked_again",
        "policy/test_bypasses.py::test_annotations_of_a_server_tool_allow_nothing",
    ),
    "A10": (
        "upstream/test_supervisor.py::"
        "test_ten_thousand_list_changed_notifications_cause_one_list_per_interval",
        "upstream/test_connection.py::test_a_cursor_that_comes_back_ends_the_list",
        "upstream/test_parts.py::test_a_list_is_cut_at_the_most_tools",
        "upstream/test_parts.py::test_an_endless_list_ends",
    ),
    "A11": (
        "upstream/test_sanitize.py::test_hidden_characters_are_escaped_in_all_texts",
        "upstream/test_sanitize.py::test_a_long_description_is_truncated",
        "tools/test_tool_search.py::test_no_description_can_close_the_block_it_stands_in",
    ),
    "A49": (
        "upstream/test_supervisor.py::test_a_server_that_never_answers_does_not_delay_the_others",
        "upstream/test_supervisor.py::test_a_start_fails_if_the_tool_list_is_never_answered",
        "upstream/transports/test_http.py::"
        "test_a_server_that_sends_its_handshake_too_slowly_is_down_after_the_deadline",
        "upstream/test_upstreams.py::test_a_client_with_the_cached_list_is_notified_of_the_new_one",
    ),
    "A50": (
        "upstream/test_connection.py::test_progress_without_end_does_not_extend_the_time_of_a_call",
        "upstream/test_connection.py::test_an_answer_after_the_timeout_is_dropped",
        "upstream/test_connection.py::"
        "test_a_call_that_times_out_is_cancelled_and_the_connection_stays_open",
    ),
    "A51": (
        "upstream/test_faults.py::"
        "test_calls_to_a_server_that_keeps_failing_fail_at_once_and_start_nothing",
        "upstream/test_supervisor.py::test_many_restarts_leave_no_process_and_no_descriptor",
        "upstream/test_parts.py::test_jitter_adds_up_to_half_and_stays_under_the_maximum",
    ),
    "A52": (
        "upstream/test_connection.py::test_garbage_between_messages_is_skipped_and_counted",
        "upstream/transports/test_http.py::test_only_the_answer_to_a_request_is_taken_from_its_stream",
    ),
    "A53": (
        "upstream/requests/test_relay.py::test_a_client_is_asked_only_for_declared_capabilities",
        "upstream/requests/test_relay.py::test_a_server_request_that_may_belong_to_two_clients_is_refused",
        "upstream/requests/test_relay.py::test_the_number_of_server_requests_is_limited",
        "upstream/test_connection.py::"
        "test_a_server_that_sends_requests_and_never_reads_is_disconnected",
    ),
    "A54": (
        "upstream/test_faults.py::test_a_server_that_stops_reading_blocks_its_own_calls_only",
        "wire/test_stdio_process.py::test_a_client_that_does_not_read_costs_bounded_memory",
        "wire/test_stdio_server.py::"
        "test_a_client_that_reads_nothing_holds_up_new_calls_but_not_the_reading",
    ),
    "A55": (
        "upstream/test_faults.py::"
        "test_a_thousand_calls_with_cancellations_and_crashes_get_one_answer_each",
        "upstream/test_faults.py::"
        "test_twenty_servers_of_which_five_are_broken_and_nothing_runs_twice",
    ),
    "A56": (
        "e2e/test_server_process.py::test_a_server_that_is_killed_leaves_no_process_behind",
        "e2e/test_server_process.py::test_a_client_that_disappears_ends_the_server_and_all_it_started",
        "e2e/test_server_process.py::test_a_signal_shuts_the_server_down_in_order",
    ),
    "A57": ("processes/test_clocks.py::test_the_wall_clock_is_read_for_dates_and_ages_only",),
    "A58": (
        "processes/test_child.py::test_the_baseline_environment_has_basic_variables_and_no_secrets",
        "upstream/test_supervisor.py::test_a_child_gets_the_baseline_environment_and_its_own_variables",
        "hooks/runners/test_command.py::"
        "test_a_hook_inherits_the_environment_without_variables_of_mcp_dispatch",
    ),
    "A59": (
        "upstream/config/test_load.py::test_variables_are_expanded_once_as_plain_text",
        "upstream/config/test_load.py::test_an_unset_variable_stays_as_written_and_is_reported",
        "upstream/config/test_load.py::test_an_unset_variable_in_a_url_is_not_a_host",
    ),
    "A60": (
        "settings/test_trust.py::test_cve_2025_59536_before_trust_a_workspace_can_only_tighten",
        "settings/test_trust.py::"
        "test_workspace_servers_need_trust_and_a_changed_command_needs_it_again",
        "settings/test_trust.py::"
        "test_cve_2026_21852_a_trusted_workspace_never_sets_endpoints_proxies_or_loaders",
    ),
    "A61": (
        "upstream/transports/test_http.py::test_a_redirect_to_anything_else_is_not_followed",
        "upstream/transports/test_http.py::test_another_origin_never_receives_the_request_or_its_headers",
        "upstream/transports/test_http.py::test_an_invalid_answer_fails_the_call",
        "upstream/transports/test_sse_parser.py::test_an_endless_event_is_refused_at_the_limit",
    ),
    "A62": (
        "e2e/test_http_calls.py::test_the_id_of_a_session_cannot_be_guessed",
        "e2e/test_http_calls.py::test_sessions_share_nothing_up_to_2025_11_25",
        "server/http/test_auth.py::test_an_unknown_session_is_not_found",
        "server/http/test_auth.py::test_only_known_hosts_are_served",
        "server/http/test_auth.py::test_only_known_origins_are_served",
        "server/http/test_startup.py::test_localhost_is_an_ipv4_address_and_has_a_port_chosen",
    ),
    "A63": (
        "e2e/test_calls.py::test_invalid_arguments_are_reported_with_their_paths_and_nothing_runs",
        "pipeline/test_dispatcher.py::test_refusals_before_the_rules_fire_no_hook",
        "schema/test_validator.py::test_a_remote_reference_is_refused_and_never_requested",
        "schema/test_cost_bounds.py::test_doubling_references_are_refused_at_once",
        "schema/test_error_messages.py::test_of_a_million_wrong_items_the_first_are_reported",
        "wire/test_codec.py::test_a_line_that_could_not_be_forwarded_is_rejected",
    ),
    "A64": (
        "e2e/test_arguments.py::test_rules_hooks_and_the_server_see_the_same_arguments",
        "upstream/test_connection.py::test_arguments_arrive_as_they_are",
    ),
    "A65": (
        "tools/search/test_grep.py::test_values_that_look_like_options_are_values",
        "tools/search/test_grep.py::test_hostile_strings_are_values_in_every_field",
        "tools/search/test_glob.py::test_hostile_strings_never_lead_out_of_the_workspace",
        "policy/test_advisories.py::test_cve_2026_35020_a_file_name_is_never_parsed_as_a_script",
    ),
}


def list_test_names(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


@pytest.mark.parametrize("row", ROWS)
def test_every_test_that_a_row_names_exists(row: str) -> None:
    named = [test.split("::") for test in ROWS[row]]

    assert named
    assert [[file, test] for file, test in named if test not in list_test_names(file)] == []


def test_every_row_of_these_areas_has_a_test(data_dir: Path) -> None:
    rows = json.loads((data_dir / "attack-ideas.json").read_text(encoding="utf-8"))

    assert {row["id"] for row in rows if row["area"] in AREAS} == ROWS.keys()
