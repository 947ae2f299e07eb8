/* SPDX-License-Identifier: MIT */
/* What why answers, of sessions with a data plane that answers when the test says so. */
#include "daemon/base/events.h"
#include "daemon/ctl/handlers.h"
#include "daemon/state/handle.h"
#include "tests/unit/session_rig.h"
#include <stdlib.h>

#define CALLER 1000
#define MOST 256u /* as in ctl/why.c */

static struct ctl_caller caller = {.who = {.uid = CALLER, .socket = ""}};
static json_t *answer;
static unsigned looks; /* at sessions' failures */

unsigned __real_plane_session_failures(const struct plane_session *s,
                                       struct plane_failure failed[PLANE_FAILURES]);
unsigned __wrap_plane_session_failures(const struct plane_session *s,
                                       struct plane_failure failed[PLANE_FAILURES]);
unsigned __wrap_plane_session_failures(const struct plane_session *s,
                                       struct plane_failure failed[PLANE_FAILURES]) {
    looks++;
    return __real_plane_session_failures(s, failed);
}

static void on_answered(struct ctl_calls *calls, char *line, bool due) {
    (void)calls;
    cr_assert(due && line);
    answer = json_loads(line, 0, NULL);
    free(line);
}

static json_t *ask(const char *object, uint64_t id) {
    static const struct ctl_method why = {.name = "why", .handler = ctl_why, .right = CTL_SHOW};
    struct ctl_calls calls = {.state = &st, .caller = &caller, .answered = on_answered};
    json_t *number = json_integer(1);
    json_t *params = json_pack("{s:s, s:I}", "object", object, "id", (json_int_t)id);
    list_init(&calls.list);
    json_decref(answer);
    answer = NULL;
    ctl_why(ctl_call_new(&calls, number, &why), params);
    json_decref(params);
    json_decref(number);
    cr_assert_not_null(answer);
    return json_object_get(answer, "result");
}

static size_t sentences(const json_t *result) {
    return json_array_size(json_object_get(result, "now"));
}

static bool is_cut(const json_t *result) {
    return json_is_true(json_object_get(result, "truncated"));
}

static struct session *session_of(uid_t uid) {
    struct session *s;
    cr_assert_eq(session_new(&st, uid, uid, 1, &s, NULL), 0);
    return s;
}

static void up(void) {
    rig_set_up();
    caller.policy.value[RULE_ADMIN].number = ADMIN_OWN;
    events_forget();
}

static void down(void) {
    json_decref(answer);
    list_for_each_safe (node, &st.sessions)
        session_close(list_entry(node, struct session, node), NULL);
    fake_answer_all();
    rig_tear_down();
}
TestSuite(why, .init = up, .fini = down);

static void fail_ops(struct session *s, unsigned count) {
    const struct plane_failure f = {.user_data = 0,
                                    .length = 64,
                                    .status = RDMAD_E_TIMEOUT,
                                    .opcode = RDMAD_OP_WRITE,
                                    .outcome = RDMAD_FAILED_UNTOUCHED};
    for (unsigned i = 0; i < count; i++)
        fake_fail(s->plane, &f);
}

Test(why, of_an_op_number_that_thousands_have_so_many_are_told_and_that_there_are_more) {
    for (unsigned i = 0; i < MOST / PLANE_FAILURES; i++)
        fail_ops(session_of(CALLER), PLANE_FAILURES);
    const json_t *result = ask("op", 0);
    cr_expect_eq(sentences(result), MOST);
    cr_expect_not(is_cut(result), "it says that there are more, and there are none");
    fail_ops(session_of(CALLER), 1);
    result = ask("op", 0);
    cr_expect_eq(sentences(result), MOST);
    cr_expect(is_cut(result), "it does not say that there are more");
    for (unsigned i = 0; i < 1000; i++)
        fail_ops(session_of(CALLER), PLANE_FAILURES);
    looks = 0;
    result = ask("op", 0);
    cr_expect_eq(sentences(result), MOST, "%zu", sentences(result));
    cr_expect(is_cut(result));
    cr_expect_leq(looks, MOST / PLANE_FAILURES + 1, "it looked at %u sessions", looks);
}

Test(why, what_is_somebody_elses_takes_no_place) {
    for (unsigned i = 0; i < MOST; i++)
        fail_ops(session_of(CALLER + 1), PLANE_FAILURES);
    fail_ops(session_of(CALLER), 3);
    const json_t *result = ask("op", 0);
    cr_expect_eq(sentences(result), 3);
    cr_expect_not(is_cut(result));
}

Test(why, of_a_lease_with_thousands_of_lessees_here_so_many_are_told) {
    enum { SESSIONS = 3, EACH = 1000 };
    static struct handle handles[SESSIONS][EACH];
    static uint64_t numbers[SESSIONS][EACH];
    struct session *s[SESSIONS];
    for (unsigned i = 0; i < SESSIONS; i++) {
        s[i] = session_of(CALLER);
        for (unsigned n = 0; n < EACH; n++) {
            handles[i][n] = (struct handle){.remote = true, .lease_id = 7, .stage = HANDLE_USABLE};
            numbers[i][n] = slots_add(&s[i]->handles, &handles[i][n]);
            cr_assert(numbers[i][n]);
        }
    }
    const json_t *result = ask("attach", 7);
    cr_expect_eq(sentences(result), MOST, "%zu", sentences(result));
    cr_expect(is_cut(result));
    for (unsigned i = 0; i < SESSIONS; i++)
        for (unsigned n = 0; n < EACH; n++)
            slots_remove(&s[i]->handles, numbers[i][n]);
}
