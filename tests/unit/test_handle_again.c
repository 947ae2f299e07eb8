/* SPDX-License-Identifier: MIT */
/*
 * A handle whose lease is not back yet is asked for time and again, by the number that it had at an
 * earlier life of the daemon. Nobody else gets its place meanwhile.
 */
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>

#define LIFE 100u                                   /* where the generations of this life begin */
#define BEFORE(index) (UINT64_C(7) << 32 | (index)) /* a number of an earlier one */

static struct session *s;

static void setup(void) {
    rig_up();
    s = rig_session(1);
    slots_begin(&s->handles, LIFE, UINT32_MAX);
}

static void teardown(void) {
    rig_close(s);
    fake_answer_all();
    cr_expect(rig_closed(s));
    rig_down();
}

TestSuite(handle_again, .init = setup, .fini = teardown);

static struct handle *ask_again(uint64_t number) {
    struct handle *h = NULL;
    struct error err = {0};
    cr_assert_eq(handle_new_again(s, number, &h, &err), 0, "%s", err.text);
    cr_assert_eq(h->number, number);
    return h;
}

static struct handle *attach_another(void) {
    struct handle *h = NULL;
    struct error err = {0};
    cr_assert_eq(handle_new(s, &h, &err), 0, "%s", err.text);
    return h;
}

Test(handle_again, its_place_is_kept_while_its_lease_is_not_back) {
    handle_free(ask_again(BEFORE(0)));
    struct handle *other = attach_another();
    struct handle *h = ask_again(BEFORE(0));
    handle_free(h);
    handle_free(other);
    handle_free(ask_again(BEFORE(0)));
}

Test(handle_again, its_place_is_kept_if_the_data_plane_refuses_it) {
    struct session *owner = rig_session(2);
    struct lease *l = rig_grant(owner, 1000);
    struct rig_done done = {0};
    struct error err = {0};
    cr_assert_eq(handle_attach_local(ask_again(BEFORE(0)), l, rig_done, &done, &err), 0, "%s",
                 err.text);
    fake_answer(fake_call(FAKE_LEASE_ADD, -1), RDMAD_E_NOMEM);
    fake_answer_all();
    cr_assert_eq(done.code, RDMAD_E_NOMEM);
    struct handle *other = attach_another();
    handle_free(ask_again(BEFORE(0)));
    handle_free(other);
    rig_close(owner);
    fake_answer_all();
}

Test(handle_again, its_place_is_kept_if_there_is_no_room_for_one_more) {
    struct handle *first, *none, *other;
    struct error err = {0};
    rig.st.quota.limits.session[QUOTA_ATTACHES] = 1;
    first = attach_another();
    cr_assert_eq(handle_new_again(s, BEFORE(1), &none, &err), RDMAD_E_LIMIT, "%s", err.text);
    rig.st.quota.limits.session[QUOTA_ATTACHES] = 3;
    other = attach_another();
    handle_free(ask_again(BEFORE(1)));
    handle_free(other);
    handle_free(first);
}

Test(handle_again, its_place_is_kept_before_it_is_tried) {
    handle_reserve(s, BEFORE(0));
    struct handle *other = attach_another();
    handle_free(ask_again(BEFORE(0)));
    handle_free(other);
}

Test(handle_again, its_place_is_free_when_it_is_given_up) {
    handle_free(ask_again(BEFORE(0)));
    handle_give_up(s, BEFORE(1));
    handle_give_up(s, BEFORE(0));
    struct handle *other = attach_another();
    cr_expect_eq(other->number, (uint64_t)LIFE << 32);
    handle_free(other);
}
