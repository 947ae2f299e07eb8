/* SPDX-License-Identifier: MIT */
/*
 * test_bystander.c - the measure of attacks itself: it sees who waits, and it can fail.
 */
#include "tests/support/bystander.h"

#include <signal.h>
#include <stdio.h>

static void a_bystander_whom_nobody_attacks_is_within_its_bound(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct bystander *b = bystander_start(d);
    sleep_ms(500);
    bystander_stop(b, "no attack");
    tdaemon_stop(d);
}

/* Without this a bystander that measures nothing would judge every attack harmless. */
static void a_bystander_notices_a_daemon_that_hangs(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct bystander *b = bystander_start(d);
    kill(tdaemon_pid(d), SIGSTOP);
    sleep_ms(300);
    double op = bystander_worst_op_ms(b), call = bystander_worst_call_ms(b);
    kill(tdaemon_pid(d), SIGCONT);
    CHECK(op > 250 || call > 250, "a stop of 300 ms was seen as %.1f and %.1f ms", op, call);
    bystander_stop(b, "a daemon stopped for 300 ms");
    tdaemon_stop(d);
}

TEST_MAIN(CASE(a_bystander_whom_nobody_attacks_is_within_its_bound),
          CASE(a_bystander_notices_a_daemon_that_hangs))
