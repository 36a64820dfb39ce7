"""Say which tests reach all that a store over documents runs: each pair of lines that follow each other.

A tracer said so: of ``stores/documents``, ``stores/sql`` and ``stores/engine/codec.py`` these tests reach the same 945
pairs of lines as the whole suite. What the engine decides is tested in memory.
"""

from __future__ import annotations

# What mutants of the rules need beside it.
MORE = ("test_a_newer_format_admits_nothing", "test_it_is_found_in_the_line_to_which_it_moved")
EACH_DOCUMENT = (
    *MORE,
    "test_a_caller_that_would_not_wait_leaves_the_wait_as_it_is",
    "test_a_crowd_of_callers",
    "test_a_limit_that_is_raised_starts_none_that_says_zero",
    "test_a_name_of_a_broker_that_is_too_long_is_refused",
    "test_a_process_that_reaps_is_known_by_its_format",
    "test_a_restart_does_not_change_it",
    "test_a_session_that_slept_names_what_it_holds",
    "test_all_else_is_refused",
    "test_an_error_for_what_names_no_resource",
    "test_an_error_for_what_names_nothing",
    "test_an_operator_changes_it_for_all",
    "test_brokers_that_a_store_forgot_are_named_again",
    "test_longer_names_are_refused_for_good",
    "test_messages_count_while_they_are_parked",
    "test_nor_does_one_that_would_not_wait",
    "test_permits_last_as_long_as_their_leases",
    "test_the_dead_never_acquire_again",
    "test_they_do_what_each_does_by_itself",
    "test_what_a_store_forgot_is_said_again",
    "test_what_was_decided_is_known_though_nobody_uses_it",
    "test_what_was_sent_comes_again",
)
