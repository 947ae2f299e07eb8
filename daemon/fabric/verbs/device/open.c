/* SPDX-License-Identifier: MIT */
/*
 * open.c - opens and closes a device, and asks its port how it is.
 *
 * Opening: the context, its events non-blocking, the PD, what the device can, how the port is, the
 * settings lowered to that, and the self-test, which decides how leases are held. What had to be
 * lowered, and settings with which an op may never end, are logged once by a process.
 */
#include "daemon/fabric/verbs/device/open.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/upper_fd.h"
#include "daemon/fabric/verbs/device/facts.h"
#include "daemon/fabric/verbs/device/limits.h"
#include "daemon/fabric/verbs/device/selftest.h"
#include "daemon/fabric/verbs/device/survey.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bits of *told, behind enum lowered. */
#define TOLD_RETRY 0x100u
#define TOLD_RNR_RETRY 0x200u
#define TOLD_TIMEOUT 0x400u
#define TOLD_NO_WINDOWS 0x800u
#define TOLD_NO_ODP 0x1000u

#define TIMEOUT_LONG 22 /* 17 s an attempt */

/* Whether this is the first time. */
static bool first(unsigned *told, unsigned what) {
    bool before = *told & what;
    *told |= what;
    return !before;
}

/* ---- the port ------------------------------------------------------------------------------ */

int device_port(const struct wish *wish, const struct device *d, struct port_now *out,
                struct error *err) {
    struct verbs_settings s = *wish->settings;
    snprintf(s.device, sizeof(s.device), "%s", d->name);
    s.port = 0; /* it is the only one that is looked at */
    const struct wish only = {.settings = &s, .listen = wish->listen};
    struct device_list *list;
    int failed = survey_open_port(d->context, d->port, &only, &list, err);
    if (failed)
        return failed;
    memset(out, 0, sizeof(*out));
    const struct device_gid *g = port_chosen_gid(devices_chosen_port(list));
    struct ibv_port_attr attr;
    if (g && ibv_query_port(d->context, (uint8_t)d->port, &attr) == 0) {
        out->usable = true;
        memcpy(out->gid.raw, g->raw, sizeof(g->raw));
        out->gid_index = (uint8_t)g->index;
        out->lid = attr.lid;
        out->mtu = limits_mtu(&attr, &s);
    } else {
        error_set(&out->why, RDMAD_E_UNREACHABLE, "%s: %s", d->name,
                  list->why.code ? list->devices[0].why : "the port does not answer");
    }
    device_list_free(list);
    return 0;
}

/* ---- settings ------------------------------------------------------------------------------ */

static void tell_lowered(const struct verbs_settings *asked, const struct device *d,
                         unsigned lowered, unsigned *told) {
    const struct verbs_settings *got = &d->settings;
    const struct {
        unsigned what;
        const char *key, *limit;
        uint64_t asked, got;
    } all[] = {
        {LOWERED_QUEUE_DEPTH, "verbs.queue_depth", "max_qp_wr or max_cqe", asked->queue_depth,
         got->queue_depth},
        {LOWERED_RD_ATOMIC, "verbs.rd_atomic", "max_qp_init_rd_atom", asked->rd_atomic,
         got->rd_atomic},
        {LOWERED_DEST_RD_ATOMIC, "verbs.dest_rd_atomic", "max_qp_rd_atom", asked->dest_rd_atomic,
         got->dest_rd_atomic},
        {LOWERED_MAX_MESSAGE, "verbs.max_message_bytes", "max_msg_sz", asked->max_message,
         got->max_message},
        {LOWERED_INLINE, "verbs.inline_bytes", "inline size", asked->inline_bytes,
         got->inline_bytes},
        {LOWERED_MTU, "verbs.mtu", "active_mtu", asked->mtu, got->mtu},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if ((lowered & all[i].what) && first(told, all[i].what))
            LOG(NOTICE,
                ("%s: %s is %" PRIu64 ", lowered to the device's %s: %" PRIu64, d->name, all[i].key,
                 all[i].asked, all[i].limit, all[i].got),
                FIELD_STR("DEVICE", d->name), FIELD_STR("KEY", all[i].key));
    }
}

static void tell_endless(const struct device *d, unsigned *told) {
    const struct verbs_settings *s = &d->settings;
    if (s->retry_count >= 7 && first(told, TOLD_RETRY))
        LOG(WARNING,
            ("verbs.retry_count is 7, which some devices take for ever: ops to a peer that is gone "
             "end only by their deadline; use at most 6"),
            FIELD_STR("DEVICE", d->name));
    if (s->rnr_retry >= 7 && first(told, TOLD_RNR_RETRY))
        LOG(WARNING,
            ("verbs.rnr_retry is 7, which means without end: ops to a peer that is not ready end "
             "only by their deadline; use at most 6"),
            FIELD_STR("DEVICE", d->name));
    if ((s->timeout == 0 || s->timeout >= TIMEOUT_LONG) && first(told, TOLD_TIMEOUT))
        LOG(WARNING,
            ("verbs.timeout is %u, so that a lost packet is noticed %s: ops to a peer that is gone "
             "end only by their deadline; 14 is usual (67 ms)",
             s->timeout, s->timeout ? "after 17 s or more" : "never"),
            FIELD_STR("DEVICE", d->name));
    if (s->odp && !(d->attr.odp_caps.general_caps & IBV_ODP_SUPPORT) && first(told, TOLD_NO_ODP))
        LOG(WARNING, ("verbs.odp is on and %s has no on-demand paging: pools are pinned", d->name),
            FIELD_STR("DEVICE", d->name));
}

/* The inline size has no limit that can be asked for: the largest that a QP can be made with. */
static bool try_inline(struct open_device *o, unsigned *lowered, struct error *err) {
    struct verbs_settings *s = &o->d.settings;
    struct ibv_cq *cq = ibv_create_cq(o->d.context, (int)s->queue_depth, NULL, NULL, 0);
    if (!cq) {
        error_errno(err, RDMAD_E_FABRIC, "%s: cannot make a CQ of %u entries", o->d.name,
                    s->queue_depth);
        return false;
    }
    uint32_t asked = s->inline_bytes;
    struct ibv_qp *qp = NULL;
    for (;;) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq,
            .recv_cq = cq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = s->queue_depth,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = s->inline_bytes},
        };
        qp = ibv_create_qp(o->d.pd, &init);
        if (qp || (s->inline_bytes == 0 && s->queue_depth <= 16))
            break;
        if (s->inline_bytes) {
            s->inline_bytes /= 2;
        } else {
            s->inline_bytes = asked; /* it was not that */
            s->queue_depth /= 2;
            *lowered |= LOWERED_QUEUE_DEPTH;
        }
    }
    if (!qp)
        error_errno(err, RDMAD_E_FABRIC, "%s: cannot make a QP of %u work requests", o->d.name,
                    s->queue_depth);
    else
        ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    if (s->inline_bytes < asked)
        *lowered |= LOWERED_INLINE;
    return qp != NULL;
}

/* Whether a QP of that kind can be made: nothing that can be asked says so. */
static bool makes_qp(const struct device *d, enum ibv_qp_type type) {
    struct ibv_cq *cq = ibv_create_cq(d->context, 2, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = {1, 1, 1, 1, 0}};
    struct ibv_qp *qp = cq ? ibv_create_qp(d->pd, &init) : NULL;
    if (qp)
        ibv_destroy_qp(qp);
    if (cq)
        ibv_destroy_cq(cq);
    return qp != NULL;
}

static void find_services(struct device *d) {
    d->services = 0;
    if (d->iwarp)
        return;
    if (makes_qp(d, IBV_QPT_UD))
        d->services |= 1u << RDMAD_CHANNEL_DATAGRAM;
    if (makes_qp(d, IBV_QPT_UC))
        d->services |= 1u << RDMAD_CHANNEL_UNACKED;
}

static bool fit_settings(const struct wish *wish, struct open_device *o, unsigned *told,
                         struct error *err) {
    struct device *d = &o->d;
    struct ibv_port_attr attr;
    int failed = ibv_query_port(d->context, (uint8_t)d->port, &attr);
    if (failed) {
        error_set(err, RDMAD_E_FABRIC, "%s: port %u does not answer: %s", d->name, d->port,
                  strerror(failed));
        return false;
    }
    d->settings = *wish->settings;
    d->link_layer = attr.link_layer;
    d->max_message = attr.max_msg_sz;
    unsigned lowered = limits_lower(&d->attr.orig_attr, &attr, &d->settings);
    if (lowered & LOWERED_MTU)
        d->settings.mtu = mtu_bytes(attr.active_mtu);
    if (!try_inline(o, &lowered, err))
        return false;
    find_services(d);
    tell_lowered(wish->settings, d, lowered, told);
    tell_endless(d, told);
    return true;
}

/* ---- how windows hold ---------------------------------------------------------------------- */

static bool decide_windows(enum window_choice asked, struct open_device *o,
                           const struct port_now *port, unsigned *told, struct error *err) {
    struct device *d = &o->d;
    struct selftest_result v;
    bool has = device_has_memory_windows(d);
    selftest_run(d, port, &v);
    if (v.late)
        selftest_run(d, port, &v);
    snprintf(o->self_test, sizeof(o->self_test), "%s", v.says);
    if (v.ran && !v.registrations) {
        error_set(
            err, RDMAD_E_FABRIC,
            "RDMA device %s is not used, for it does not protect memory: in the self-test %s; "
            "update its driver or name another with verbs.device",
            d->name, v.says);
        return false;
    }
    switch (asked) {
    case WINDOWS_AUTO:
        d->memory_windows = v.ran && v.windows;
        break;
    case WINDOWS_REGISTRATIONS:
        d->memory_windows = false;
        break;
    case WINDOWS_FORCED:
        d->memory_windows = has;
        if (!has && first(told, TOLD_NO_WINDOWS))
            LOG(WARNING,
                ("verbs.windows is \"windows\" and %s has none of type 2: leases get "
                 "registrations",
                 d->name),
                FIELD_STR("DEVICE", d->name));
        else if (has && !(v.ran && v.windows))
            LOG(WARNING,
                ("verbs.windows is \"windows\": leases on %s are not protected against peers that "
                 "lie, in the self-test %s",
                 d->name, v.says),
                FIELD_STR("DEVICE", d->name));
        break;
    }
    if (!v.ran)
        LOG(WARNING, ("%s: the self-test could not be run: %s", d->name, v.says),
            FIELD_STR("DEVICE", d->name));
    return true;
}

/* ---- open and close ------------------------------------------------------------------------ */

bool device_there(const struct open_device *o) {
    struct stat st;
    return stat(o->uverbs, &st) == 0 && st.st_ino == o->inode;
}

static struct ibv_context *open_named(const char *name) {
    struct ibv_device **all = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    errno = ENODEV;
    for (int i = 0; all && all[i] && !context; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            context = ibv_open_device(all[i]);
            break;
        }
    }
    int saved = errno;
    if (all)
        ibv_free_device_list(all);
    errno = saved;
    return context;
}

/* A client that sees the lifeline hang up relies on it that the device is closed. libibverbs keeps
 * the numbers nowhere else. */
static bool move_up(struct ibv_context *c) {
    c->cmd_fd = upper_fd(c->cmd_fd);
    c->async_fd = upper_fd(c->async_fd);
    return c->cmd_fd >= upper_fd_least();
}

static bool open_context(struct open_device *o, const struct device_view *view, struct error *err) {
    struct stat st;
    snprintf(o->uverbs, sizeof(o->uverbs), "%s", view->uverbs);
    snprintf(o->d.name, sizeof(o->d.name), "%s", view->name);
    if (stat(o->uverbs, &st) == 0)
        o->inode = st.st_ino;
    o->d.context = open_named(view->name);
    if (!o->d.context) {
        error_errno(err, RDMAD_E_FABRIC, "RDMA device %s cannot be opened", view->name);
        return false;
    }
    if (!move_up(o->d.context)) {
        error_set(
            err, RDMAD_E_FABRIC,
            "RDMA device %s cannot be opened: no descriptor is left for it; raise LimitNOFILE",
            view->name);
        return false;
    }
    o->opened_ns = clock_now_ns();
    o->d.iwarp = o->d.context->device->transport_type == IBV_TRANSPORT_IWARP;
    int flags = fcntl(o->d.context->async_fd, F_GETFL);
    if (flags < 0 || fcntl(o->d.context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        error_errno(err, RDMAD_E_FABRIC, "%s: its events cannot be made non-blocking", view->name);
        return false;
    }
    int failed = ibv_query_device_ex(o->d.context, NULL, &o->d.attr);
    if (failed) {
        error_set(err, RDMAD_E_FABRIC, "RDMA device %s does not answer: %s", view->name,
                  strerror(failed));
        return false;
    }
    o->d.pd = ibv_alloc_pd(o->d.context);
    if (!o->d.pd)
        error_errno(err, RDMAD_E_FABRIC, "%s: cannot allocate a protection domain", view->name);
    return o->d.pd != NULL;
}

int device_open(const struct wish *wish, const struct device_view *view, unsigned port,
                unsigned *told, struct open_device **out, struct port_now *now, struct error *err) {
    struct open_device *o = calloc(1, sizeof(*o));
    if (!o)
        return error_set(err, RDMAD_E_NOMEM, "out of memory while opening %s", view->name);
    o->d.port = port;
    int failed = 0;
    if (!open_context(o, view, err) || !fit_settings(wish, o, told, err)) {
        failed = RDMAD_E_FABRIC;
    } else {
        failed = device_port(wish, &o->d, now, err);
        if (!failed && !now->usable) /* it went down meanwhile */
            failed = error_set(err, RDMAD_E_FABRIC, "%s", now->why.text);
        if (!failed && !decide_windows(wish->settings->windows, o, now, told, err))
            failed = RDMAD_E_FABRIC;
    }
    if (failed) {
        device_close(o);
        return failed;
    }
    *out = o;
    return 0;
}

void device_close(struct open_device *o) {
    int failed = o->d.pd ? ibv_dealloc_pd(o->d.pd) : 0;
    if (failed)
        LOG(ERR,
            ("%s: something is left in its protection domain: %s", o->d.name, strerror(failed)),
            FIELD_STR("DEVICE", o->d.name));
    if (o->d.context && ibv_close_device(o->d.context))
        LOG(ERR, ("%s cannot be closed: %s", o->d.name, strerror(errno)),
            FIELD_STR("DEVICE", o->d.name));
    free(o);
}
