/* SPDX-License-Identifier: MIT */
/*
 * A handle of an earlier life whose place is to be kept, and nothing else. Attaches, and the way
 * back to the client, are the test's own.
 */
#include "daemon/serve/attach.h"
#include "daemon/serve/handlers.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>

enum { LIFE = 500 };
#define BEFORE(index) ((UINT64_C(1) << 32) + (index))

static struct session *s;
static unsigned attaches, replies;
static int code;

bool serve_reply(const struct request *rq, const void *body, size_t size, const int *fds,
                 unsigned nfds) {
    (void)rq, (void)body, (void)size, (void)fds, (void)nfds;
    cr_assert_fail("nothing here succeeds");
    return true;
}

void serve_fail(const struct request *rq, const struct error *why) {
    (void)rq;
    replies++;
    code = why->code;
}

void attach_by_number(const struct request *rq, const struct rdmad_lease_attach_req *req,
                      uint64_t number) {
    (void)rq, (void)req, (void)number;
    attaches++;
}

static void up(void) {
    rig_up();
    s = rig_session(1);
    s->origin.life = 1;
    s->origin.resumed = true;
    slots_begin(&s->handles, LIFE, UINT32_MAX);
}

static void down(void) {
    rig_close(s);
    fake_answer_all();
    rig_down();
}

TestSuite(attach_reserve, .init = up, .fini = down);

static void ask(uint64_t handle, uint64_t timeout_ns) {
    const struct request rq = {.session = s, .type = RDMAD_MSG_ATTACH_RESUME};
    const struct rdmad_attach_resume_req req = {.handle = handle, .attach.timeout_ns = timeout_ns};
    serve_attach_resume(&rq, &req);
}

static uint64_t attach_another(void) {
    struct handle *h;
    struct error err = {0};
    cr_assert_eq(handle_new(s, &h, &err), 0, "%s", err.text);
    uint64_t number = h->number;
    handle_free(h);
    return number;
}

Test(attach_reserve, its_place_is_kept_and_nobody_is_asked) {
    ask(BEFORE(0), RDMAD_ATTACH_RESERVE_NS);
    cr_expect_eq(code, RDMAD_E_TIMEOUT, "%d", code);
    cr_expect_eq(replies, 1);
    cr_expect_eq(attaches, 0, "its owner is asked");
    cr_expect_neq((uint32_t)attach_another(), 0, "another handle has its place");
}

Test(attach_reserve, any_other_time_is_that_of_an_attach) {
    ask(BEFORE(0), 0);
    ask(BEFORE(0), RDMAD_ATTACH_RESERVE_NS + 1);
    cr_expect_eq(attaches, 2);
    cr_expect_eq(replies, 0);
}

Test(attach_reserve, no_place_is_kept_for_who_was_not_resumed) {
    s->origin.resumed = false;
    ask(BEFORE(0), RDMAD_ATTACH_RESERVE_NS);
    cr_expect_eq(code, RDMAD_E_PROTOCOL, "%d", code);
    cr_expect_eq((uint32_t)attach_another(), 0);
}
