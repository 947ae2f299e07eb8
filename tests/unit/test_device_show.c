/* SPDX-License-Identifier: MIT */
/*
 * device.show with everything around it played by the test: how many surveys are made, and who is
 * answered by which.
 */
#include "daemon/base/offload.h"
#include "daemon/ctl/handlers.h"
#include "daemon/fabric/device.h"
#include "daemon/plane/plane.h"
#include "daemon/state/state.h"
#include <criterion/criterion.h>
#include <string.h>

struct ctl_call {
    json_t *result;
    int failed;
    bool unheard, answered;
};

const struct fabric_ops fabric_verbs = {.name = "verbs"};

static struct state st;
static struct ctl_call calls[4];
static struct offload_job *posted;
static unsigned surveys, freed;
static int fails;
static struct device_fact facts[] = {{"max_qp", "9"}};
static struct device_view device = {.name = "rxe0", .facts = facts, .fact_count = 1};
static struct device_list devices = {.devices = &device, .count = 1};

struct state *ctl_state(const struct ctl_call *call) {
    (void)call;
    return &st;
}
bool ctl_is_heard(const struct ctl_call *call) {
    return !call->unheard;
}
void ctl_reply(struct ctl_call *call, json_t *result) {
    call->result = result;
    call->answered = true;
}
void ctl_fail(struct ctl_call *call, const struct error *why) {
    call->failed = why->code;
}
const struct fabric_ops *plane_fabric(const struct plane *p, unsigned fabric) {
    (void)p;
    return fabric ? NULL : &fabric_verbs;
}
struct fabric_host *plane_fabric_host(const struct plane *p, unsigned fabric) {
    (void)p, (void)fabric;
    return NULL;
}
void offload_post(struct offload *o, struct offload_job *job) {
    (void)o;
    cr_assert_null(posted, "one at a time");
    posted = job;
}
int devices_survey(const struct fabric_settings *settings, const struct fabric_host *host,
                   struct device_list **out, struct error *err) {
    (void)settings;
    (void)host;
    surveys++;
    *out = &devices;
    return fails ? error_set(err, fails, "no") : 0;
}
void device_list_free(struct device_list *list) {
    cr_expect_eq(list, &devices);
    freed++;
}

static void show(unsigned i, bool verbose) {
    json_t *params = json_pack("{s:b}", "verbose", verbose);
    ctl_device_show(&calls[i], params);
    json_decref(params);
}

static void finish(void) {
    struct offload_job *job = posted;
    job->run(job);
    posted = NULL;
    job->done(job);
}

static void up(void) {
    memset(calls, 0, sizeof(calls));
    strcpy(st.fabric_why, "started on rxe0");
}

static void down(void) {
    for (unsigned i = 0; i < 4; i++)
        json_decref(calls[i].result);
}

TestSuite(device_show, .init = up, .fini = down);

static bool has_facts(unsigned i) {
    return json_object_get(json_array_get(json_object_get(calls[i].result, "devices"), 0), "facts");
}

Test(device_show, calls_at_one_time_share_one_survey_and_each_is_answered_as_it_asked) {
    show(0, false);
    show(1, true);
    show(2, false);
    cr_expect_null(calls[0].result);
    finish();
    cr_expect_eq(surveys, 1);
    cr_expect_eq(freed, 1);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_not_null(calls[i].result);
        cr_expect_eq(has_facts(i), i == 1);
    }
    show(3, true); /* later: what is so by then */
    cr_expect_null(calls[3].result);
    finish();
    cr_expect_eq(surveys, 2);
    cr_expect(has_facts(3));
}

Test(device_show, a_survey_that_fails_fails_all_who_wait_for_it) {
    fails = RDMAD_E_SYSTEM;
    show(0, false);
    show(1, false);
    finish();
    cr_expect_eq(calls[0].failed, RDMAD_E_SYSTEM);
    cr_expect_eq(calls[1].failed, RDMAD_E_SYSTEM);
    cr_expect_eq(freed, 0);
    cr_expect_null(st.survey);
}

/* Connections that come, ask and go again, while a device does not answer. */
Test(device_show, who_is_gone_waits_no_longer_than_there_are_places_and_gets_no_answer_printed) {
    enum { GONE = 2000, PLACES = 512 };
    static struct ctl_call other[GONE];
    unsigned waiting = 0;
    show(0, false);
    json_t *params = json_pack("{s:b}", "verbose", true);
    for (unsigned i = 0; i < GONE; i++) {
        ctl_device_show(&other[i], params);
        other[i].unheard = true;
    }
    json_decref(params);
    for (unsigned i = 0; i < GONE; i++)
        waiting += !other[i].answered;
    cr_expect_leq(waiting, PLACES);
    show(1, false);
    finish();
    for (unsigned i = 0; i < GONE; i++)
        cr_assert(other[i].answered && !other[i].result, "%u", i);
    cr_expect(calls[0].result && calls[1].result, "who is there is answered");
}
