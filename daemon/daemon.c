/* SPDX-License-Identifier: MIT */
/*
 * daemon.c - starts everything in one order and stops it in the other.
 *
 * daemon_start() makes the objects from the inside out: loop, mailbox and timers, porter,
 * registration thread, data plane, leases, peers, then the sockets through which somebody can ask
 * for something. A step that fails is logged, and daemon_stop() undoes the steps before it: it
 * takes any prefix of them.
 */
#include "daemon/daemon.h"
#include "daemon/base/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/guard.h"
#include "daemon/base/hole_guard.h"
#include "daemon/base/lifeline.h"
#include "daemon/base/list.h"
#include "daemon/base/log.h"
#include "daemon/base/offload.h"
#include "daemon/base/rouse.h"
#include "daemon/choice.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/metrics_door.h"
#include "daemon/greeting.h"
#include "daemon/ground.h"
#include "daemon/handover.h"
#include "daemon/instance.h"
#include "daemon/ipc/listener.h"
#include "daemon/ipc/porter.h"
#include "daemon/ipc/rota.h"
#include "daemon/manager.h"
#include "daemon/node_life.h"
#include "daemon/peer/peer.h"
#include "daemon/plane_told.h"
#include "daemon/serve/serve.h"
#include "daemon/settings.h"
#include "daemon/state/channel.h"
#include "daemon/state/identity.h"
#include "daemon/state/limits.h"
#include "daemon/state/names.h"
#include "daemon/state/session_end.h"
#include "daemon/state/thread_watch.h"
#include "daemon/stop.h"
#include "daemon/tenants.h"
#include "daemon/upgrade.h"
#include "daemon/wakeups.h"
#include "pki/dir.h"
#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct daemon {
    const struct options *options;
    struct config config; /* live: reload changes it in place */
    struct plane_settings plane_settings;
    struct state state;
    struct mailbox mailbox;
    struct manager_sockets passed;
    int lock;
    struct rouse *rouse;
    struct event_base *base;
    struct wakeups *wakeups;
    struct listener *clients;
    struct tenants *tenants;
    struct ctl *ctl;
    struct manager *manager;
    struct event *term, *interrupt, *hangup;
    struct handover before; /* what the life before has handed over */
    struct reaper *reaper;
    struct upgrade *upgrade;
    struct daemon_asked { /* who asked for the upgrade that is being checked */
        upgrade_checked *checked;
        void *arg;
    } asked;
    bool next_life; /* it stops for an upgrade */
    struct stop stop;
    bool clean;
};

/* ---- signals -------------------------------------------------------------------------------- */

static void on_stopped(void *arg, bool clean) {
    struct daemon *d = arg;
    d->clean = clean;
    event_base_loopbreak(d->base);
}

static uint64_t daemon_stop_bound_us(const struct daemon *d) {
    return (d->config.drain_timeout_ms + STOP_FORCE_MS) * 2000;
}

static void daemon_drain(struct daemon *d, const char *why) {
    LOG(NOTICE,
        ("%s: draining for at most %llu ms", why, (unsigned long long)d->config.drain_timeout_ms));
    listener_pause(d->clients);
    tenants_pause(d->tenants);
    stop_begin(&d->stop, &d->state, on_stopped, d);
}

static void on_stop_signal(evutil_socket_t sig, short what, void *user) {
    struct daemon *d = user;
    (void)what;
    if (d->next_life)
        LOG(NOTICE, ("%s: no upgrade, this is the end", strsignal(sig)));
    if (d->state.stopping && !d->next_life)
        return;
    d->next_life = false;
    manager_stopping(d->manager, daemon_stop_bound_us(d));
    if (!d->state.stopping)
        daemon_drain(d, strsignal(sig));
}

/* ---- upgrade -------------------------------------------------------------------------------- */

static void on_upgrade_checked(void *arg, const struct error *result) {
    struct daemon *d = arg;
    struct error why = *result;
    if (!why.code && d->state.stopping)
        error_set(&why, RDMAD_E_SHUTDOWN, "no upgrade: rdmad is stopping");
    if (why.code) {
        LOG(ERR, ("%s", why.text));
    } else {
        d->next_life = true;
        manager_upgrading(d->manager, daemon_stop_bound_us(d));
        LOG(NOTICE, ("upgrade: %s is good, and follows", upgrade_program(d->upgrade)));
        daemon_drain(d, "upgrade");
    }
    d->asked.checked(d->asked.arg, &why);
}

static void daemon_words(const struct daemon *d, struct handover *out) {
    const struct state *st = &d->state;
    *out = (struct handover){.times = d->before.times + 1,
                             .began_ns = d->stop.began_ns,
                             .port = st->listen_port,
                             .porter = porter_pid(st->porter)};
    snprintf(out->from, sizeof(out->from), "%s", RDMAD_VERSION);
}

/* What a next life would have from this one, for a trial of it. */
static char **daemon_tell(const struct daemon *d) {
    struct kept kept = {.count = 0};
    struct handover h;
    daemon_words(d, &h);
    (void)listener_tell(d->clients, &kept);
    (void)ctl_tell(d->ctl, &kept);
    metrics_tell(d->state.metrics, &kept);
    tenants_tell(d->tenants, &kept);
    return handover_for_trial(&h, &kept);
}

static int daemon_upgrade(struct state *st, const char *program, upgrade_checked *checked,
                          void *arg, struct error *err) {
    struct daemon *d = container_of(st, struct daemon, state);
    if (d->next_life)
        return error_set(err, RDMAD_E_BUSY, "an upgrade is under way; wait for it");
    if (st->stopping)
        return error_set(err, RDMAD_E_SHUTDOWN, "no upgrade: rdmad is stopping");
    char **env = daemon_tell(d);
    if (!env)
        return error_set(err, RDMAD_E_NOMEM, "no memory for an upgrade");
    int rc = upgrade_check(d->upgrade, program, env, on_upgrade_checked, d, err);
    if (!rc)
        d->asked = (struct daemon_asked){checked, arg};
    return rc;
}

static void set_limits(const struct config *c, struct quota_limits *out) {
    struct error err;
    limits_of(c, out);
    if (limits_check(c, out, &err))
        LOG(WARNING, ("%s", err.text));
}

static void apply_reloadable(struct daemon *d) {
    log_set_level(log_level_named(d->config.log_level));
    set_limits(&d->config, &d->state.quota.limits);
    plane_set_spin(d->state.plane, d->config.spin_min_us * NSEC_PER_USEC,
                   d->config.spin_max_us * NSEC_PER_USEC);
}

/* The rules of loaded take the place of those that there are. */
static void daemon_take_rules(struct daemon *d, struct config *loaded) {
    struct rules *old = d->config.rules;
    d->config.rules = loaded->rules;
    policy_reload(d->state.policy, &d->config);
    sessions_apply_policy(&d->state);
    peers_apply_policy(d->state.peers);
    rules_free(old);
}

static void audit_reload(const struct settings_changes *changes) {
    char more[40] = "";
    if (changes->more)
        snprintf(more, sizeof(more), " and %u more", changes->more);
    AUDIT(ADMIN, "reload", audit_nobody(), audit_nothing(),
          ("settings reloaded%s%s%s", changes->length ? ": " : "", changes->text, more));
}

/* For a signal and for rdmactl alike. The manager is told when it is over, however it went; whoever
 * asked is told what went wrong. */
static int daemon_reload(struct state *st, void (*later)(void *arg, const char *key), void *arg,
                         struct error *err) {
    struct daemon *d = container_of(st, struct daemon, state);
    struct config loaded;
    struct settings_changes changes = {0};
    if (st->stopping) { /* to tell that it is ready again would be a lie */
        LOG(NOTICE, ("settings not reloaded: rdmad is stopping"));
        return error_set(err, RDMAD_E_SHUTDOWN, "settings not reloaded: rdmad is stopping");
    }
    manager_reloading(d->manager);
    int rc = options_load(d->options, &loaded, NULL, err);
    if (rc) {
        config_free(&loaded);
        LOG(ERR, ("settings not reloaded, the old ones stay: %s", err->text));
        EVENT("settings", "wrong", audit_nobody(), audit_nothing(), ("%s", err->text));
    } else {
        handover_keep_port(&d->before, &loaded);
        settings_reload(&d->config, &loaded, &changes, later, arg);
        settings_rules_changed(d->config.rules, loaded.rules, &changes, later, arg);
        daemon_take_rules(d, &loaded);
        apply_reloadable(d);
        audit_reopen(d->config.audit_file);
        audit_reload(&changes);
        rc = identity_reload(st, true, err);
    }
    greeting_manager(&d->state, d->manager);
    return rc;
}

static void on_reload_signal(evutil_socket_t sig, short what, void *user) {
    struct daemon *d = user;
    struct error why;
    (void)sig;
    (void)what;
    (void)daemon_reload(&d->state, NULL, NULL, &why);
}

static int start_signals(struct daemon *d, struct error *err) {
    d->term = evsignal_new(d->base, SIGTERM, on_stop_signal, d);
    d->interrupt = evsignal_new(d->base, SIGINT, on_stop_signal, d);
    d->hangup = evsignal_new(d->base, SIGHUP, on_reload_signal, d);
    if (!d->term || !d->interrupt || !d->hangup || event_add(d->term, NULL) ||
        event_add(d->interrupt, NULL) || event_add(d->hangup, NULL))
        return error_set(err, RDMAD_E_NOMEM, "cannot watch signals");
    return RDMAD_OK;
}

/* ---- start ---------------------------------------------------------------------------------- */

static int start_node_life(struct daemon *d, struct error *err) {
    struct state *st = &d->state;
    int rc = node_life_load(d->config.runtime_dir, st, err);
    if (rc)
        return rc;
    ground_name(st);
    return RDMAD_OK;
}

static void on_identity_changed(struct state *st) {
    if (st->peers)
        peers_judge_anew(st->peers);
}

static int start_identity(struct daemon *d, struct error *err) {
    char buf[PKI_PATH_MAX];
    const char *dir = options_identity_dir(d->options, &d->config, buf);
    return identity_start(&d->state, dir, on_identity_changed, err);
}

static int start_loop(struct daemon *d, struct error *err) {
    d->base = event_base_new();
    if (!d->base)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the event loop");
    d->state.base = d->base;
    d->reaper = reaper_new(d->base, &d->before);
    return wakeups_new(d->base, &d->mailbox, &d->state.timers, &d->wakeups, err);
}

/* Opens devices: the daemon's credentials do not change any more. */
static int start_fabric(struct daemon *d, const struct plane_events *events, struct error *err) {
    struct state *st = &d->state;
    struct plane_settings *settings = &d->plane_settings;
    struct fabric_choice choice;
    int rc = ground_fabric(&d->config, st->descriptors, settings, &choice, err);
    if (rc)
        return rc;
    st->fabric_settings = &settings->fabric_settings;
    do {
        memcpy(settings->fabrics, choice.fabrics, sizeof(settings->fabrics));
        rc = plane_start(settings, events, &d->mailbox, &st->plane, err);
    } while (rc && choice_next_best(&choice, err));
    snprintf(st->fabric_why, sizeof(st->fabric_why), "%s", choice.why.text);
    snprintf(st->fabric_why_no_more, sizeof(st->fabric_why_no_more), "%s", choice.alone.text);
    choice_warn(&choice, &d->config);
    return rc;
}

static int start_plane(struct daemon *d, struct error *err) {
    const struct plane_events events = plane_told_events(&d->state);
    struct quota_limits limits;
    set_limits(&d->config, &limits);
    quota_init(&d->state.quota, &limits);
    quota_keep_last(&d->state.quota);
    instance_check_lock(limits.total[QUOTA_BYTES]);
    if (offload_start(&d->state.offload))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot start a registration thread");
    return start_fabric(d, &events, err);
}

static int start_tables(struct daemon *d, struct error *err) {
    d->state.policy = policy_new(&d->config);
    if (!d->state.policy)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the policy");
    if (names_new(&d->state.timers, &d->state.names) || leases_new(&d->state, &d->state.leases))
        return error_set(err, RDMAD_E_NOMEM, "no memory for the table of leases");
    return peers_new(&d->state, &d->state.peers, err);
}

static void on_crowded(void *user, bool crowded) {
    struct daemon *d = user;
    if (crowded)
        AUDIT(THROTTLED, "descriptor", audit_nobody(), audit_nothing(),
              ("nobody is let in: what clients have left behind is still being closed"));
    if (d->clients)
        listener_suspend(d->clients, crowded);
    if (d->tenants)
        tenants_suspend(d->tenants, crowded);
    if (d->ctl)
        ctl_suspend(d->ctl, crowded);
}

/* While there is one thread, and before anything is opened that should not be in a child. */
static int start_rouse(struct daemon *d, struct error *err) {
    if (!rouse_is_needed())
        return RDMAD_OK;
    LOG(NOTICE,
        ("this kernel takes apart strangers' sockets in the name of whoever closes one: "
         "rdmad wakes its threads from that, at the cost of some wake-ups a second; a newer "
         "kernel needs none"));
    return rouse_start(&d->rouse, err);
}

/* Before devices are opened, which do not like to be in two processes. */
static int start_porter(struct daemon *d, struct error *err) {
    const struct porter_spec spec = {.program = "/proc/self/exe", .crowded = on_crowded, .user = d};
    d->state.rota = rota_new(d->base);
    if (!d->state.rota)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for the turns of clients");
    return porter_new(d->base, &spec, &d->state.porter, err);
}

static int start_upgrade(struct daemon *d, struct error *err) {
    d->upgrade = upgrade_new(d->options->argv, &d->mailbox);
    return d->upgrade ? RDMAD_OK : error_set(err, RDMAD_E_NOMEM, "no memory for upgrades");
}

/* What the life before listened on and this one does not: a tenant that is no more. Closing takes
 * apart what waits in the backlog, and a client can hold that up. */
static void start_leftovers(struct daemon *d) {
    struct kept *k = &d->passed.kept;
    for (unsigned i = 0; i < k->count; i++) {
        LOG(NOTICE, ("%s is not listened on any more", k->socket[i].path));
        unlink(k->socket[i].path);
        porter_drop(d->state.porter, k->socket[i].fd, i + 1);
    }
    k->count = 0;
}

static int start_sockets(struct daemon *d, struct error *err) {
    char path[GROUND_PATH_MAX];
    struct listener_spec spec;
    int rc = ground_clients(&d->state, path, &spec, err);
    spec.activated = d->passed.client;
    spec.refused = serve_refuse;
    d->state.client_group = spec.group;
    if (!rc)
        rc = listener_new(d->base, &spec, serve_accept, &d->state, &d->clients, err);
    if (!rc)
        rc = tenants_new(&d->state, &d->tenants, err);
    if (!rc)
        rc = ctl_new(&d->state, d->passed.control, &d->ctl, err);
    if (!rc)
        rc = metrics_new(&d->state, &d->state.metrics, err);
    return rc;
}

static int daemon_start(struct daemon *d, struct error *err) {
    int rc = log_start(err);
    if (rc)
        return rc;
    d->state.descriptors = instance_raise_limits(&d->config);
    d->lock = instance_lock(d->config.runtime_dir, err);
    if (d->lock < 0)
        return d->lock;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* if whoever started us ignores it, nobody can be waited for */
    if (guard_install())
        return error_errno(err, RDMAD_E_SYSTEM, "cannot install the SIGBUS guard");
    hole_guard_install();
    if ((rc = start_rouse(d, err)) || (rc = lifeline_open(&d->state.lifeline, err)) ||
        (rc = start_node_life(d, err)) || (rc = start_loop(d, err)) ||
        (rc = start_identity(d, err)) || (rc = start_porter(d, err)) ||
        (rc = audit_start(d->config.audit_file, err)) || (rc = start_plane(d, err)) ||
        (rc = start_tables(d, err)) || (rc = start_sockets(d, err)) ||
        (rc = start_upgrade(d, err)) ||
        (rc = thread_watch_new(&d->state, manager_watchdog_ns(), err)) ||
        (rc = manager_new(d->base, &d->state, &d->manager, err)) || (rc = start_signals(d, err)))
        return rc;
    start_leftovers(d);
    return RDMAD_OK;
}

/* ---- stop ----------------------------------------------------------------------------------- */

static void signal_drop(struct event *e) {
    if (e)
        event_free(e);
}

static void block_signals(int how) {
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGTERM);
    sigaddset(&asked, SIGINT);
    sigaddset(&asked, SIGHUP);
    pthread_sigmask(how, &asked, NULL);
}

/* Every session, lease and peer has ended, or none ever was. */
static void daemon_stop(struct daemon *d) {
    struct state *st = &d->state;
    /* Whoever asks once more finds it ending: libevent would give the signal its default back. */
    block_signals(SIG_BLOCK);
    signal_drop(d->term);
    signal_drop(d->interrupt);
    signal_drop(d->hangup);
    manager_free(d->manager);
    thread_watch_free(st);
    reaper_free(d->reaper);
    struct listener *clients = d->clients;
    struct tenants *tenants = d->tenants;
    struct ctl *ctl = d->ctl;
    d->clients = NULL; /* from here on the porter cannot ask to suspend them */
    d->tenants = NULL;
    d->ctl = NULL;
    ctl_free(ctl);
    metrics_free(st->metrics);
    upgrade_free(d->upgrade); /* then, because it answers, and nobody is to be answered any more */
    tenants_free(tenants);
    if (clients)
        listener_free(clients);
    if (st->peers)
        peers_free(st->peers);
    st->peers = NULL; /* a worker may still tell of one */
    identity_stop(st);
    if (st->leases)
        leases_free(st->leases);
    slots_fini(&st->channels);
    if (st->names)
        names_free(st->names);
    if (st->offload)
        offload_stop(st->offload); /* its last jobs may still use the plane's devices */
    if (st->plane)
        plane_stop(st->plane);
    if (d->wakeups) {
        mailbox_drain(&d->mailbox); /* ends that were reported after the loop's last turn */
        wakeups_free(d->wakeups);
        quota_fini(&st->quota);
    }
    usage_fini(&st->usage);
    if (st->porter)
        porter_free(st->porter);
    policy_free(st->policy);
    config_free(&d->config);
    rota_free(st->rota);
    rouse_stop(d->rouse);
    if (d->base)
        event_base_free(d->base);
    audit_stop();
    if (d->lock >= 0)
        close(d->lock);
}

/* Takes the sockets out of what daemon_stop ends, and all words that are in it. */
static void daemon_keep(struct daemon *d, struct kept *kept, struct handover *h) {
    daemon_words(d, h);
    bool all = listener_keep(d->clients, kept);
    all = ctl_keep(d->ctl, kept) && all;
    if (!all)
        LOG(WARNING, ("a socket cannot be kept open, and is made anew by the next life"));
    tenants_keep(d->tenants, kept);
}

/* Where the stop was not clean, what is left is used by threads that exec ends, as exit would: the
 * next life finds nothing of it, and programs keep their backlog. */
static int daemon_exec(struct daemon *d) {
    struct kept kept = {.count = 0};
    struct handover h;
    char program[PATH_MAX];
    snprintf(program, sizeof(program), "%s", upgrade_program(d->upgrade));
    daemon_keep(d, &kept, &h);
    block_signals(SIG_BLOCK);
    if (d->clean)
        daemon_stop(d);
    else
        audit_stop();
    LOG(NOTICE, ("the next life begins: %s", program));
    log_stop();
    int failed = handover_exec(program, d->options->argv, &kept, &h);
    if (!d->clean)
        _exit(failed);
    return failed;
}

int daemon_run(const struct options *options, const struct config *config) {
    struct daemon d = {.options = options, .config = *config, .lock = -1};
    struct error why;
    d.state.config = &d.config;
    d.state.mailbox = &d.mailbox;
    d.state.reload = daemon_reload;
    d.state.upgrade = daemon_upgrade;
    d.state.kept = &d.passed.kept;
    d.state.started_ns = clock_now_ns();
    list_init(&d.state.sessions);
    usage_init(&d.state.usage);
    slots_init(&d.state.channels, CHANNELS_TOTAL_MAX);
    log_set_level(log_level_named(config->log_level));
    manager_take_sockets(&d.passed);
    handover_take(&d.before);
    handover_keep_port(&d.before, &d.config);
    if (daemon_start(&d, &why)) {
        LOG(ERR, ("cannot start: %s", why.text));
        if (d.state.life.number) /* it was counted */
            node_life_take_back(d.config.runtime_dir);
        daemon_stop(&d);
        log_stop();
        return why.code == RDMAD_E_CONFIG ? 2 : 1;
    }
    block_signals(SIG_UNBLOCK); /* the life before has left them blocked */
    greeting_log(&d.state);
    greeting_manager(&d.state, d.manager);
    greeting_upgraded(&d.state, &d.before);
    event_base_dispatch(d.base);
    if (d.next_life)
        return daemon_exec(&d);
    if (!d.clean) {
        audit_stop();
        log_stop();
        _exit(1); /* what is left is still in use, by threads too: the kernel takes it back */
    }
    daemon_stop(&d);
    LOG(NOTICE, ("stopped"));
    log_stop();
    return 0;
}
