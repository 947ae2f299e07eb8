/* SPDX-License-Identifier: MIT */
/*
 * in_use.c - the device in use: chosen and opened, looked at, lost, closed.
 *
 * Coming: the best device is opened, all pools are registered on it, and only then members get it.
 *
 * Going: the host forgets the device, members are told, and it stays open until the last has let
 * go; then pools are deregistered and the context is closed, in that order. Then another is looked
 * for: at once after a device that was taken away, later and later after one that broke soon after
 * it was adopted.
 */
#include "daemon/fabric/verbs/host/in_use.h"
#include "daemon/base/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/device/facts.h"
#include "daemon/fabric/verbs/device/survey.h"
#include "daemon/fabric/verbs/host/member.h"
#include "daemon/fabric/verbs/host/memory.h"
#include "daemon/fabric/verbs/host/state.h"
#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RETRY_MIN_NS (20 * NSEC_PER_MSEC)
#define BROKEN_WAIT_NS (100 * NSEC_PER_MSEC) /* doubles with each failure, */
#define BROKEN_DOUBLE_MAX 7u                 /* to 12.8 s */
#define STANDS_NS (250 * NSEC_PER_MSEC)      /* a reason that stands so long is logged */
#define SOUND_NS (60 * NSEC_PER_SEC)         /* a device that lived so long counts as sound */

/* ---- a device comes ------------------------------------------------------------------------ */

static int in_use_open(struct fabric_host *h, struct port_now *port, struct error *err) {
    struct device_list *list;
    int failed = survey_all(&h->wish, &list, err);
    if (failed)
        return failed;
    const struct device_port *p = devices_chosen_port(list);
    if (!p)
        failed = error_set(err, RDMAD_E_FABRIC, "%s", list->why.text);
    else
        failed = device_open(&h->wish, &list->devices[list->chosen], p->number, &h->told, &h->open,
                             port, err);
    device_list_free(list);
    return failed;
}

static void in_use_remember(const char *cause, const char *text) {
    EVENT("device", cause, audit_nobody(), audit_nothing(), ("%s", text));
}

static void in_use_say_adopted(const struct open_device *o, const struct port_now *port) {
    char gid[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, port->gid.raw, gid, sizeof(gid));
    LOG(NOTICE,
        ("RDMA device %s port %u is in use, GID %u (%s), MTU %u; leases are held by %s: %s",
         o->d.name, o->d.port, port->gid_index, gid, mtu_bytes(port->mtu),
         o->d.memory_windows ? "windows" : "registrations", o->self_test),
        FIELD_STR("DEVICE", o->d.name), FIELD_U64("PORT", o->d.port));
    EVENT("device", "in use", audit_nobody(), audit_nothing(),
          ("RDMA device %s port %u is in use", o->d.name, o->d.port));
}

/* Members get the device, unless a pool was added that is not registered on it yet. */
static bool in_use_give_out(struct fabric_host *h, const struct port_now *port) {
    pthread_mutex_lock(&h->lock);
    bool ready = !memories_missing(h) || !device_there(h->open);
    if (ready) {
        h->now = h->open;
        h->port = *port;
        h->failed = NULL;
        memset(&h->why, 0, sizeof(h->why));
        members_device_came(h);
    }
    pthread_mutex_unlock(&h->lock);
    return ready;
}

int in_use_adopt(struct fabric_host *h, struct error *err) {
    struct port_now port = {0};
    assert(h->use == USE_NONE);
    int failed = in_use_open(h, &port, err);
    if (failed) {
        h->open = NULL;
        return failed;
    }
    in_use_say_adopted(h->open, &port);
    do {
        memories_register(h);
    } while (!in_use_give_out(h, &port));
    h->use = USE_NOW;
    h->look_ns = CLOCK_NEVER;
    return 0;
}

/* The reason is logged when it is another than before, and not that of a moment: a device that
 * comes or goes is half there for a while. */
static void in_use_say_none(struct fabric_host *h, const struct error *why, uint64_t now_ns) {
    if (strcmp(h->looked.text, why->text) != 0) {
        h->looked = *why;
        h->looked_ns = now_ns;
    }
    if (now_ns - h->looked_ns < STANDS_NS || strcmp(h->said.text, why->text) == 0)
        return;
    h->said = *why;
    LOG(WARNING, ("no RDMA device is in use: %s", why->text));
    in_use_remember("none", why->text);
}

void in_use_search(struct fabric_host *h, uint64_t now_ns) {
    struct error err = {0};
    if (in_use_adopt(h, &err) == 0) {
        memset(&h->looked, 0, sizeof(h->looked));
        memset(&h->said, 0, sizeof(h->said));
        return;
    }
    h->retry_after_ns = h->retry_after_ns < RETRY_MIN_NS ? RETRY_MIN_NS : 2 * h->retry_after_ns;
    if (h->retry_after_ns > IN_USE_LOOK_NS)
        h->retry_after_ns = IN_USE_LOOK_NS;
    h->retry_ns = now_ns + h->retry_after_ns;
    pthread_mutex_lock(&h->lock);
    h->why = err;
    pthread_mutex_unlock(&h->lock);
    in_use_say_none(h, &err, now_ns);
}

/* ---- the port ------------------------------------------------------------------------------ */

static bool same_port(const struct port_now *a, const struct port_now *b) {
    return a->usable == b->usable && memcmp(a->gid.raw, b->gid.raw, sizeof(a->gid.raw)) == 0 &&
           a->gid_index == b->gid_index && a->lid == b->lid && a->mtu == b->mtu &&
           strcmp(a->why.text, b->why.text) == 0;
}

static void in_use_say_port(const struct device *d, const struct port_now *p, bool was_usable) {
    char gid[INET6_ADDRSTRLEN] = "";
    if (p->usable && !was_usable)
        EVENT("device", "port up", audit_nobody(), audit_nothing(),
              ("RDMA device %s port %u can be used again", d->name, d->port));
    else if (!p->usable)
        EVENT("device", "port down", audit_nobody(), audit_nothing(),
              ("RDMA device %s cannot be used now: %s", d->name, p->why.text));
    inet_ntop(AF_INET6, p->gid.raw, gid, sizeof(gid));
    if (p->usable)
        LOG(NOTICE,
            ("%s: port %u has GID %u (%s), LID %u, MTU %u now", d->name, d->port, p->gid_index, gid,
             p->lid, mtu_bytes(p->mtu)),
            FIELD_STR("DEVICE", d->name), FIELD_U64("PORT", d->port));
    else
        LOG(WARNING, ("port %u cannot be used now: %s", d->port, p->why.text),
            FIELD_STR("DEVICE", d->name), FIELD_U64("PORT", d->port));
}

void in_use_look(struct fabric_host *h) {
    assert(h->use == USE_NOW);
    struct error err;
    struct port_now port;
    h->look_ns = CLOCK_NEVER;
    if (device_port(&h->wish, &h->open->d, &port, &err) != 0) {
        LOG(ERR, ("%s", err.text), FIELD_STR("DEVICE", h->open->d.name));
        h->look_ns = clock_now_ns() + IN_USE_LOOK_NS;
        return;
    }
    if (!port.usable)
        h->look_ns = clock_now_ns() + IN_USE_LOOK_NS;
    pthread_mutex_lock(&h->lock);
    bool changed = !same_port(&h->port, &port), was_usable = h->port.usable;
    if (changed) {
        h->port = port;
        members_port_changed(h);
    }
    pthread_mutex_unlock(&h->lock);
    if (changed)
        in_use_say_port(&h->open->d, &port, was_usable);
}

/* ---- a device goes ------------------------------------------------------------------------- */

void in_use_lose(struct fabric_host *h, const struct error *why) {
    assert(h->use == USE_NOW && h->now == h->open);
    LOG(WARNING, ("%s; what is under way over it ends", why->text),
        FIELD_STR("DEVICE", h->open->d.name));
    in_use_remember("gone", why->text);
    h->use = USE_ENDING;
    h->ending_since_ns = clock_now_ns();
    pthread_mutex_lock(&h->lock);
    h->now = NULL;
    memset(&h->port, 0, sizeof(h->port));
    h->why = *why;
    members_device_going(h, why);
    pthread_mutex_unlock(&h->lock);
}

void in_use_close(struct fabric_host *h) {
    assert(h->use != USE_NONE);
    pthread_mutex_lock(&h->lock);
    h->now = NULL;
    pthread_mutex_unlock(&h->lock);
    memories_deregister(h);
    device_close(h->open);
    h->open = NULL;
    h->use = USE_NONE;
}

void in_use_finish(struct fabric_host *h, uint64_t now_ns) {
    assert(h->use == USE_ENDING);
    char name[64];
    pthread_mutex_lock(&h->lock);
    bool held = members_hold_device(h);
    pthread_mutex_unlock(&h->lock);
    if (held)
        return;
    if (now_ns - h->open->opened_ns > SOUND_NS)
        h->failures = h->failures > 0;
    snprintf(name, sizeof(name), "%s", h->open->d.name);
    in_use_close(h);
    uint64_t end_ns = clock_now_ns();
    LOG(NOTICE,
        ("%s is closed, after %" PRIu64 " ms", name, (end_ns - h->ending_since_ns) / NSEC_PER_MSEC),
        FIELD_STR("DEVICE", name));
    unsigned doubled = h->failures < BROKEN_DOUBLE_MAX ? h->failures : BROKEN_DOUBLE_MAX;
    h->retry_after_ns = 0;
    h->retry_ns = end_ns + (h->failures ? BROKEN_WAIT_NS << doubled : 0);
}

void in_use_take_failure(struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    bool failed = h->failed && h->now && &h->now->d == h->failed;
    h->failed = NULL;
    struct error why = h->failed_why;
    pthread_mutex_unlock(&h->lock);
    if (!failed)
        return;
    h->failures++;
    in_use_lose(h, &why);
}
