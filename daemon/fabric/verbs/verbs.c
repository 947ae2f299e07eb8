/* SPDX-License-Identifier: MIT */
/*
 * verbs.c - one instance: its birth, its turn (poll), its sleep (arm), its end, and the devices
 * that come and go under it.
 *
 * A turn runs the mail of the host and of finished jobs, posts what was batched, takes completions,
 * and tells what links have to tell. While awake nothing but memory is looked at; the completion
 * channel and rdma_cm's events are asked after a sleep, the latter now and then too.
 *
 * A device that goes is let go of in the same turn if no job of a window is at a thread of the
 * host's; else when the last is back. Until then there is no device for anybody new.
 */
#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/connect/cm_way.h"
#include "daemon/fabric/verbs/connect/ways.h"
#include "daemon/fabric/verbs/host/memory.h"
#include "daemon/fabric/verbs/instance/cq.h"
#include "daemon/fabric/verbs/link/links.h"
#include "daemon/fabric/verbs/target/targets.h"
#include "daemon/fabric/verbs/window/revocation.h"
#include "daemon/fabric/verbs/window/window.h"
#include "daemon/fabric/verbs/wire/page.h"
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CM_EVERY 64u /* turns between looks at rdma_cm's events */

/* ---- the device -------------------------------------------------------------------------- */

static struct verbs *verbs_of_member(struct host_member *m) {
    return container_of(m, struct verbs, member);
}

/* Lets go of the device if it is going and nothing of it is left. */
static void verbs_check_let_go(struct verbs *v) {
    if (!v->going || v->jobs > 0)
        return;
    cqs_close(v);
    v->going = false;
    v->device = NULL;
    host_let_go(&v->member);
}

static void verbs_device_in_use(struct verbs *v, struct device *d, const struct port_now *port) {
    v->device = d;
    v->port = *port;
    windows_device_came(v);
    ways_device_came(v);
}

static void verbs_device_came(struct host_member *m, struct device *d,
                              const struct port_now *port) {
    verbs_device_in_use(verbs_of_member(m), d, port);
}

static void verbs_port_changed(struct host_member *m, const struct port_now *port) {
    verbs_of_member(m)->port = *port;
}

static void verbs_qp_event(struct host_member *m, uint32_t qp_num, enum ibv_event_type event) {
    struct verbs *v = verbs_of_member(m);
    if (v->device && !links_qp_event(v, qp_num, event))
        targets_qp_event(v, qp_num, event);
}

static void verbs_device_going(struct host_member *m, const struct error *why) {
    struct verbs *v = verbs_of_member(m);
    targets_break(v); /* it may still work, and acknowledge what nobody would be left to take */
    cqs_poll_all(v);  /* what is known to be done is done */
    v->going = true;
    links_lose(v, why);
    targets_close(v);
    cm_way_close(v);
    windows_device_going(v);
}

/* ---- a turn ------------------------------------------------------------------------------ */

static void verbs_run_timers(struct verbs *v) {
    v->next_timer_ns = CLOCK_NEVER;
    links_timers(v);
    targets_timers(v);
    cm_way_timers(v);
    revocations_timers(v);
}

static unsigned verbs_turn(struct verbs *v, void (*take)(struct verbs *v)) {
    v->progress = 0;
    v->now_ns = v->env->now_ns(v->env->user);
    verbs_free_ended(v);
    if (mailbox_pending(&v->member.mailbox))
        v->progress += mailbox_drain(&v->member.mailbox);
    if (v->slept)
        comp_channel_take(v);
    if (v->slept || ++v->turns % CM_EVERY == 0)
        cm_way_poll(v);
    v->slept = false;
    links_flush(v);
    take(v); /* before anybody is called late: it may be we who were away */
    if (v->now_ns >= v->next_timer_ns)
        verbs_run_timers(v);
    targets_look(v);
    links_settle(v);
    verbs_check_let_go(v);
    return v->progress;
}

static unsigned verbs_poll(struct fabric *f) {
    return verbs_turn(verbs_of(f), cqs_poll);
}

static unsigned verbs_poll_all(struct fabric *f) {
    return verbs_turn(verbs_of(f), cqs_poll_all);
}

static int verbs_wait_fd(struct fabric *f) {
    return verbs_of(f)->epoll_fd;
}

static bool verbs_arm(struct fabric *f, uint64_t *wake_ns) {
    struct verbs *v = verbs_of(f);
    bool safe = cqs_arm(v) && list_empty(&v->sending) && list_empty(&v->changed) &&
                !targets_noted(v) && !mailbox_pending(&v->member.mailbox);
    *wake_ns = v->next_timer_ns;
    v->slept = v->slept || safe;
    return safe;
}

/* ---- birth and end ----------------------------------------------------------------------- */

static void verbs_free(struct verbs *v) {
    if (v->epoll_fd >= 0)
        close(v->epoll_fd);
    free(v->staging);
    free(v);
}

static void verbs_close(struct fabric *f) {
    struct verbs *v = verbs_of(f);
    targets_close(v);
    cm_way_close(v);
    windows_close(v);
    targets_fini(v);
    verbs_free_ended(v);
    cqs_close(v);
    host_leave(&v->member);
    mailbox_fini(&v->member.mailbox);
    verbs_free(v);
}

static int verbs_join(struct verbs *v, struct error *err) {
    struct host_member *m = &v->member;
    struct epoll_event event = {.events = EPOLLIN};
    struct device *d = NULL;
    struct port_now port;
    if (mailbox_init(&m->mailbox))
        return error_errno(err, RDMAD_E_SYSTEM, "no descriptor for the verbs fabric's mail");
    int rc = 0;
    if (epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, m->mailbox.fd, &event))
        rc = error_errno(err, RDMAD_E_SYSTEM, "the verbs fabric cannot watch its mail");
    if (rc == 0)
        rc = host_join(v->env->host, m, &d, &port, err);
    if (rc == 0 && d)
        verbs_device_in_use(v, d, &port);
    if (rc)
        mailbox_fini(&m->mailbox);
    return rc;
}

static int verbs_open(const struct fabric_env *env, struct fabric **out, struct error *err) {
    struct verbs *v = calloc(1, sizeof *v);
    if (!v)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the verbs fabric");
    v->base.ops = &fabric_verbs;
    v->env = env;
    v->settings = &env->settings->verbs;
    v->next_timer_ns = CLOCK_NEVER;
    v->now_ns = env->now_ns(env->user);
    v->member.host = env->host;
    v->member.device_came = verbs_device_came;
    v->member.port_changed = verbs_port_changed;
    v->member.qp_event = verbs_qp_event;
    v->member.device_going = verbs_device_going;
    list_init(&v->member.node);
    list_init(&v->cqs);
    list_init(&v->links);
    list_init(&v->ended);
    list_init(&v->sending);
    list_init(&v->changed);
    targets_init(v);
    windows_init(v);
    v->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = v->epoll_fd < 0
                 ? error_errno(err, RDMAD_E_SYSTEM, "no epoll descriptor for the verbs fabric")
                 : verbs_join(v, err);
    if (rc) {
        verbs_free(v);
        return rc;
    }
    *out = &v->base;
    return 0;
}

static uint64_t verbs_quiesce_ns(const struct fabric_settings *settings) {
    return settings->verbs.quiesce_ns;
}

#define MESSAGE_BYTES (4096u + FABRIC_HEAD_MAX)

const struct fabric_ops fabric_verbs = {
    .name = "verbs",
    .link_bytes = (uint64_t)OUTBOX_SLOTS * MESSAGE_BYTES,
    .target_bytes = (uint64_t)INBOX_RECEIVES * MESSAGE_BYTES * (1 + WEAK_KINDS),
    .host_open = host_open,
    .host_close = host_close,
    .memory_add = memory_add,
    .memory_remove = memory_remove,
    .open = verbs_open,
    .close = verbs_close,
    .offer = verbs_offer,
    .expel = verbs_expel,
    .forget = verbs_forget,
    .link_new = verbs_link_new,
    .link_open = verbs_link_open,
    .link_close = verbs_link_close,
    .window_open = verbs_window_open,
    .window_extend = verbs_window_extend,
    .window_close = verbs_window_close,
    .post = verbs_post,
    .cancel = verbs_cancel,
    .poll = verbs_poll,
    .poll_all = verbs_poll_all,
    .wait_fd = verbs_wait_fd,
    .arm = verbs_arm,
    .accepted = verbs_accepted,
    .protection = host_protection,
    .trouble = host_trouble,
    .atomics_are_cpus = host_atomics_are_cpus,
    .services = host_services,
    .quiesce_ns = verbs_quiesce_ns,
};
