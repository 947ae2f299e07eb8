/* SPDX-License-Identifier: MIT */
/* One window towards what its owner wants, whatever the fabric takes its time for. */
#include "daemon/op/engine/window.h"
#include <criterion/criterion.h>
#include <rdmad/abi.h>

static bool lazy;   /* the fabric takes its time */
static int refusal; /* with what it opens none */
static unsigned opens, closes, extensions;
static int reason;   /* of the last close */
static uint64_t via; /* of the last open */

static int fake_open(struct fabric *f, const struct fabric_window_spec *spec,
                     struct fabric_window **out, struct fabric_blob *key, struct error *err) {
    (void)f;
    if (refusal)
        return error_set(err, refusal, "no");
    opens++;
    via = spec->via;
    *out = (struct fabric_window *)&opens;
    key->size = lazy ? 0 : (uint8_t)opens;
    return lazy ? FABRIC_PENDING : 0;
}

static void fake_extend(struct fabric_window *fw, uint64_t deadline_ns) {
    (void)fw;
    (void)deadline_ns;
    extensions++;
}

static bool fake_close(struct fabric_window *fw, int why) {
    cr_assert_not_null(fw);
    closes++;
    reason = why;
    return !lazy;
}

static const struct fabric_ops ops = {
    .window_open = fake_open, .window_extend = fake_extend, .window_close = fake_close};
static struct worker worker;
static struct op_fabric fabric;
static struct op_window window;
static unsigned told;
static int told_code;

static void changed(struct op_window *ow, const struct error *err) {
    cr_assert(ow == &window);
    told++;
    told_code = err ? err->code : 0;
}

static void setup(void) {
    fabric.ops = &ops;
    op_window_init(&window, &worker, &fabric, changed);
    window.spec.via = 1;
}

TestSuite(window, .init = setup);

static int want(uint64_t on) {
    struct error err;
    window.spec.via = on;
    return op_window_want(&window, &err);
}

static void came(const struct error *err) {
    struct fabric_blob key = {.size = (uint8_t)opens};
    op_window_opened(&worker, &window, &key, err);
}

Test(window, what_the_fabric_does_at_once_is_returned_and_not_told) {
    cr_assert_eq(want(1), 0);
    cr_assert_eq(window.state, OP_WINDOW_OPEN);
    cr_assert_eq(want(2), 0, "and another in its place");
    cr_assert_eq(via, 2);
    cr_assert_eq(window.key.size, 2, "with a new key");
    cr_assert(op_window_want_none(&window, RDMAD_E_LEASE_REVOKED));
    cr_assert_eq(reason, RDMAD_E_LEASE_REVOKED);
    cr_assert(op_window_want_none(&window, RDMAD_E_LEASE_REVOKED), "there is none");
    cr_assert_eq(closes, 2);
    cr_assert_eq(told, 0);
}

Test(window, one_that_opens_is_told_of_once_and_extended_as_it_was_asked_meanwhile) {
    lazy = true;
    cr_assert_eq(want(1), FABRIC_PENDING);
    op_window_extend(&window, 7);
    cr_assert_eq(extensions, 0);
    came(NULL);
    cr_assert_eq(window.state, OP_WINDOW_OPEN);
    cr_assert_eq(window.key.size, 1);
    cr_assert_eq(extensions, 1);
    cr_assert(told == 1 && told_code == 0);
}

Test(window, the_next_is_opened_when_the_last_is_closed_and_is_the_one_wanted_then) {
    lazy = true;
    want(1);
    came(NULL);
    cr_assert_eq(want(2), FABRIC_PENDING);
    cr_assert_eq(window.state, OP_WINDOW_CLOSING);
    cr_assert_eq(want(3), FABRIC_PENDING, "second thoughts");
    cr_assert(opens == 1 && closes == 1);
    op_window_closed(&worker, &window);
    cr_assert_eq(window.state, OP_WINDOW_OPENING);
    cr_assert_eq(via, 3);
    cr_assert_eq(told, 1, "it is still under way");
    came(NULL);
    cr_assert_eq(told, 2);
}

Test(window, one_not_wanted_any_more_is_not_opened) {
    lazy = true;
    want(1);
    cr_assert_not(op_window_want_none(&window, RDMAD_E_LEASE_REVOKED));
    cr_assert_eq(window.state, OP_WINDOW_CLOSING, "though it was being opened");
    want(2);
    cr_assert_not(op_window_want_none(&window, RDMAD_E_LEASE_REVOKED));
    op_window_closed(&worker, &window);
    cr_assert_eq(window.state, OP_WINDOW_NONE);
    cr_assert(opens == 1 && closes == 1 && told == 1 && told_code == 0);
}

Test(window, one_that_cannot_be_had_is_not_wanted_until_it_is_asked_for_again) {
    const struct error full = {.code = RDMAD_E_LIMIT};
    refusal = RDMAD_E_LIMIT;
    cr_assert_eq(want(1), RDMAD_E_LIMIT);
    cr_assert_not(window.wanted);
    refusal = 0;
    lazy = true;
    want(1);
    came(&full);
    cr_assert(window.state == OP_WINDOW_NONE && !window.wanted && told_code == RDMAD_E_LIMIT);
    want(1);
    came(NULL);
    want(2);
    refusal = RDMAD_E_PEER_LOST;
    op_window_closed(&worker, &window);
    cr_assert(window.state == OP_WINDOW_NONE && !window.wanted && told_code == RDMAD_E_PEER_LOST);
    cr_assert(op_window_want_none(&window, RDMAD_E_LEASE_REVOKED));
    cr_assert_eq(closes, 1, "there was nothing to close");
}
