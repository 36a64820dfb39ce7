"""Say which tests reach all that PostgreSQL runs where rows of permits are free: each branch of each function.

A sequence counted each branch: ``PERFORM nextval(...)`` after each THEN, ELSE, LOOP, BEGIN and END IF of the functions.
These tests reach the same 518 of 541 as the parts of the suite about callers, what they wait for and what they lose.
"""

from __future__ import annotations

EACH_BRANCH = (
    "test_a_caller_that_would_not_wait_leaves_the_wait_as_it_is",
    "test_a_dead_holders_permit_comes_back",
    "test_a_grant_of_a_session_does_not_fill_the_place_of_the_living",
    "test_a_grant_of_before_keeps_its_place",
    "test_a_grant_that_was_given_up_does_not_count",
    "test_a_holder_with_a_line_feed_in_its_name_is_told",
    "test_a_lease_that_is_longer_now",
    "test_a_limit_lowered_before_takes_nothing_from_what_a_grant_became",
    "test_a_message_for_other_claims_is_not_attached",
    "test_a_process_that_reaps_is_known_by_its_format",
    "test_a_session_names_what_was_set_aside",
    "test_a_task_whose_wait_has_ended_keeps_its_claims",
    "test_a_tombstone_lasts_a_lease_of_the_store",
    "test_a_wait_in_transit_keeps_its_place",
    "test_a_weight_above_the_limit_is_unsatisfiable",
    "test_all_else_is_refused",
    "test_any_holder",
    "test_awake_sessions_are_counted",
    "test_even_by_a_task_that_waits",
    "test_it_keeps_its_place",
    "test_it_runs_on_several_resources",
    "test_many_are_seen_together",
    "test_nor_by_acquiring_again",
    "test_nothing_is_expected_of_a_pause_or_of_what_does_not_wait",
    "test_nothing_is_reaped",
    "test_one_that_does_not_arrive_may_come_before_the_reap",
    "test_renewals_are_one_batch",
    "test_several_claims",
    "test_the_error_of_one_is_its_own",
    "test_the_grace_ends",
    "test_the_order_and_the_limits_of_claims_are_no_change",
    "test_the_same_holder_has_it_still",
    "test_tokens_grow_over_idleness_and_loss",
    "test_turns_that_are_expected",
    "test_what_another_session_has_is_left_to_it",
    "test_what_it_had_parked_before_is_no_message_of_it",
    "test_what_stands_again_is_granted_by_the_next_reap",
    "test_what_was_sent_meanwhile_is_elsewhere",
    "test_what_was_sent_too_long_ago_waits",
    "test_who_comes_back_at_once_takes_what_is_free",
    "test_who_knew_an_old_memory_may_come_too_late",
)
