/* SPDX-License-Identifier: MIT */
/*
 * device.c - device.show: every RDMA device of the machine, and why it is or is not used.
 *
 * A survey opens the devices, which takes its time: it runs on the registration thread, and the
 * call is answered when it is back. The daemon stops that thread before the devices' host.
 */
#include "daemon/base/offload.h"
#include "daemon/ctl/call.h"
#include "daemon/ctl/device_json.h"
#include "daemon/plane/plane.h"
#include "daemon/state/state.h"
#include <stdlib.h>

struct survey {
    struct offload_job job;
    struct ctl_call *call;
    const struct fabric_settings *settings;
    const struct fabric_host *host;
    const char *fabric; /* kept: the answer may come when the plane is gone */
    bool verbose;
    struct device_list *list;
    struct error why;
    int failed;
};

static void survey_run(struct offload_job *job) {
    struct survey *s = list_entry(job, struct survey, job);
    s->failed = devices_survey(s->settings, s->host, &s->list, &s->why);
}

static void survey_done(struct offload_job *job) {
    struct survey *s = list_entry(job, struct survey, job);
    const struct state *st = ctl_state(s->call);
    if (s->failed) {
        ctl_fail(s->call, &s->why);
    } else {
        json_t *answer = json_pack("{s:s, s:o}", "fabric", s->fabric, "devices",
                                   device_list_json(s->list, s->verbose));
        json_object_set_new(answer, "fabric_why", json_string(st->fabric_why));
        if (s->list->chosen < 0)
            json_object_set_new(answer, "why", json_string(s->list->why.text));
        device_list_free(s->list);
        ctl_reply(s->call, answer);
    }
    free(s);
}

void ctl_device_show(struct ctl_call *call, const json_t *params) {
    struct state *st = ctl_state(call);
    struct survey *s = calloc(1, sizeof(*s));
    if (!s) {
        ctl_reply(call, NULL);
        return;
    }
    *s = (struct survey){
        .job = {.reply_to = st->mailbox, .run = survey_run, .done = survey_done},
        .call = call,
        .settings = st->fabric_settings,
        .fabric = plane_fabric(st->plane)->name,
        .verbose = rpc_bool(params, "verbose"),
    };
    if (plane_fabric(st->plane) == &fabric_verbs)
        s->host = plane_fabric_host(st->plane);
    offload_post(st->offload, &s->job);
}
