/* SPDX-License-Identifier: MIT */
/*
 * device.c - device.show: every RDMA device of the machine, and why it is or is not used.
 *
 * A survey opens the devices, which takes its time: it runs on the registration thread, and the
 * call is answered when it is back. Calls that come meanwhile wait for the same one, so that pools
 * have to wait for one survey at most, whoever asks how often. The daemon stops that thread before
 * the devices' host.
 */
#include "daemon/base/offload.h"
#include "daemon/ctl/device_json.h"
#include "daemon/ctl/handlers.h"
#include "daemon/plane/plane.h"
#include "daemon/state/state.h"
#include <stdlib.h>

#define SWEEP_AT 512u /* as many as all connections may have calls */

struct survey {
    struct offload_job job;
    struct state *state;
    struct list waiting; /* of struct survey_waiter */
    unsigned waiters;    /* how many those are; some may not be heard any more */
    const struct fabric_settings *settings;
    const struct fabric_host *host;
    const char *fabric; /* kept: the answer may come when the plane is gone */
    struct device_list *list;
    struct error why;
    int failed;
};

struct survey_waiter {
    struct list node;
    struct ctl_call *call;
    bool verbose;
};

static void survey_run(struct offload_job *job) {
    struct survey *s = list_entry(job, struct survey, job);
    s->failed = devices_survey(s->settings, s->host, &s->list, &s->why);
}

static void waiter_free(struct survey *s, struct survey_waiter *w) {
    list_remove(&w->node);
    s->waiters--;
    free(w);
}

/* Whose connections have gone: they can come again, and their places with them. */
static void survey_drop_unheard(struct survey *s) {
    list_for_each_safe (pos, &s->waiting) {
        struct survey_waiter *w = list_entry(pos, struct survey_waiter, node);
        if (ctl_is_heard(w->call))
            continue;
        ctl_reply(w->call, NULL);
        waiter_free(s, w);
    }
}

static json_t *survey_answer(const struct survey *s, bool verbose) {
    json_t *answer =
        json_pack("{s:s, s:o}", "fabric", s->fabric, "devices", device_list_json(s->list, verbose));
    json_object_set_new(answer, "fabric_why", json_string(s->state->fabric_why));
    if (s->list->chosen < 0)
        json_object_set_new(answer, "why", json_string(s->list->why.text));
    return answer;
}

static void survey_done(struct offload_job *job) {
    struct survey *s = list_entry(job, struct survey, job);
    s->state->survey = NULL;
    survey_drop_unheard(s);
    for (struct list *pos; (pos = list_first(&s->waiting));) {
        struct survey_waiter *w = list_entry(pos, struct survey_waiter, node);
        if (s->failed)
            ctl_fail(w->call, &s->why);
        else
            ctl_reply(w->call, survey_answer(s, w->verbose));
        waiter_free(s, w);
    }
    if (!s->failed)
        device_list_free(s->list);
    free(s);
}

/* NULL: out of memory. */
static struct survey *survey_start(struct state *st) {
    struct survey *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    *s = (struct survey){
        .job = {.owner = UINT64_MAX, /* no uid's */
                .reply_to = st->mailbox,
                .run = survey_run,
                .done = survey_done},
        .state = st,
        .settings = st->fabric_settings,
        .fabric = plane_fabric(st->plane, 0)->name,
    };
    list_init(&s->waiting);
    if (plane_fabric(st->plane, 0) == &fabric_verbs)
        s->host = plane_fabric_host(st->plane, 0);
    offload_post(st->offload, &s->job);
    return s;
}

void ctl_device_show(struct ctl_call *call, const json_t *params) {
    struct state *st = ctl_state(call);
    struct survey_waiter *w = malloc(sizeof(*w));
    if (st->survey && st->survey->waiters >= SWEEP_AT)
        survey_drop_unheard(st->survey);
    if (w && !st->survey)
        st->survey = survey_start(st);
    if (!w || !st->survey) {
        free(w);
        ctl_reply(call, NULL);
        return;
    }
    *w = (struct survey_waiter){.call = call, .verbose = rpc_bool(params, "verbose")};
    list_append(&st->survey->waiting, &w->node);
    st->survey->waiters++;
}
