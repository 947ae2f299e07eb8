/* SPDX-License-Identifier: MIT */
/*
 * trial.c - the steps of daemon_start, in their order, each without what it would leave behind.
 */
#include "daemon/trial.h"
#include "common/uri.h"
#include "daemon/base/audit_file.h"
#include "daemon/base/log.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/metrics_door.h"
#include "daemon/ground.h"
#include "daemon/handover.h"
#include "daemon/instance.h"
#include "daemon/ipc/kept.h"
#include "daemon/peer/peer.h"
#include "daemon/state/identity.h"
#include "daemon/tenants.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct trial {
    struct config config;
    struct state state;
    struct handover before;
    struct kept kept;
};

/* The daemon that asks has its sockets there, and so the lock. */
static bool trial_in_same_directory(const struct trial *t) {
    char path[GROUND_PATH_MAX];
    snprintf(path, sizeof(path), "%s/control.sock", t->config.runtime_dir);
    return kept_name(&t->kept, path) != NULL;
}

static bool trial_has_directory(const struct trial *t) {
    struct stat st;
    return !stat(t->config.runtime_dir, &st);
}

/* The daemon that asks listens there, or nobody knows who does. */
static bool trial_at_same_port(const struct trial *t) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    return !t->before.times ||
           (!rdmad_hostport_parse(t->config.listen, host, &port) && port == t->before.port);
}

static int trial_fabric(const struct trial *t, struct error *err) {
    struct plane_settings settings;
    struct fabric_choice choice;
    return ground_fabric(&t->config, 0, &settings, &choice, err);
}

/* In a directory that is still to be made nothing is in the way. */
static int trial_sockets(const struct trial *t, struct error *err) {
    const struct state *st = &t->state;
    char path[GROUND_PATH_MAX];
    struct listener_spec clients;
    bool there = trial_has_directory(t);
    int rc = ground_clients(st, path, &clients, err);
    if (!rc && there)
        rc = listener_check(&clients, err);
    if (!rc)
        rc = tenants_check(st, err);
    if (!rc && there)
        rc = ctl_check(st, err);
    if (!rc && there)
        rc = metrics_check(st, err);
    return rc;
}

static void identity_is_new(struct state *st) {
    (void)st;
}

static int trial_run(struct trial *t, const struct options *o, struct error *err) {
    struct state *st = &t->state;
    char buf[PKI_PATH_MAX];
    bool taken = !t->before.times || trial_in_same_directory(t);
    int rc = instance_check(t->config.runtime_dir, taken, err);
    ground_name(st);
    if (!rc)
        rc = identity_start(st, options_identity_dir(o, &t->config, buf), identity_is_new, err);
    if (!rc)
        rc = audit_file_look(t->config.audit_file, err);
    if (!rc)
        rc = trial_fabric(t, err);
    if (!rc)
        rc = peers_check(st, trial_at_same_port(t), err);
    return rc ? rc : trial_sockets(t, err);
}

int trial_of_start(const struct options *o, struct error *err) {
    struct trial t = {.before = {.times = 0}};
    int rc = options_check(o, &t.config, err);
    if (!rc) {
        log_set_level(LOG_ERR); /* what a start would tell of itself */
        handover_take(&t.before);
        handover_take_told(&t.kept);
        handover_keep_port(&t.before, &t.config);
        t.state.config = &t.config;
        t.state.kept = t.before.times ? &t.kept : NULL;
        timers_init(&t.state.timers, NULL, NULL);
        rc = trial_run(&t, o, err);
        identity_stop(&t.state);
        timers_fini(&t.state.timers);
    }
    config_free(&t.config);
    return rc;
}
