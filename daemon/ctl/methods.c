/* SPDX-License-Identifier: MIT */
/*
 * methods.c - everything that may be called over control.sock: name, handler, params, and the right
 * that it needs. rdmactl(8) documents each.
 */
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/handlers.h"
#include <string.h>

#define NO_PARAMS ((const struct rpc_param[]){{NULL, RPC_END, false, 0}})
#define PARAMS(...) ((const struct rpc_param[]){__VA_ARGS__, {NULL, RPC_END, false, 0}})

static const struct ctl_method methods[] = {
    {"status", ctl_status, NO_PARAMS, CTL_SHOW},
    {"metrics", ctl_metrics, PARAMS({"format", RPC_TEXT, false, 60}), CTL_SHOW_ALL},
    {"config.show", ctl_config_show, NO_PARAMS, CTL_SHOW_ALL},
    {"device.show", ctl_device_show, PARAMS({"verbose", RPC_BOOL, false, 0}), CTL_SHOW},
    {"session.show", ctl_session_show, PARAMS({"buckets", RPC_BOOL, false, 0}), CTL_SHOW},
    {"user.show", ctl_user_show, NO_PARAMS, CTL_SHOW},
    {"pool.show", ctl_pool_show, NO_PARAMS, CTL_SHOW},
    {"lease.show", ctl_lease_show, PARAMS({"all", RPC_BOOL, false, 0}), CTL_SHOW},
    {"peer.show", ctl_peer_show, NO_PARAMS, CTL_SHOW_ALL},
    {"link.show", ctl_link_show, PARAMS({"buckets", RPC_BOOL, false, 0}), CTL_SHOW_ALL},
    {"channel.show", ctl_channel_show, NO_PARAMS, CTL_SHOW},
    {"service.show", ctl_service_show, NO_PARAMS, CTL_SHOW},
    {"lease.revoke", ctl_lease_revoke, PARAMS({"id", RPC_UINT, true, INT64_MAX}), CTL_ACT_OWN},
    {"session.kick", ctl_session_kick,
     PARAMS({"id", RPC_UINT, true, INT64_MAX}, {"why", RPC_TEXT, false, 160}), CTL_ACT_OWN},
    {"session.pause", ctl_session_pause,
     PARAMS({"id", RPC_UINT, true, INT64_MAX}, {"why", RPC_TEXT, false, 160}), CTL_ACT_OWN},
    {"session.resume", ctl_session_resume, PARAMS({"id", RPC_UINT, true, INT64_MAX}), CTL_ACT_OWN},
    {"policy.show", ctl_policy_show,
     PARAMS({"uid", RPC_UINT, false, UINT32_MAX - 1}, {"gids", RPC_TEXT, false, 16384},
            {"socket", RPC_TEXT, false, RDMAD_NAME_MAX}),
     CTL_SHOW},
    {"limit.show", ctl_limit_show, PARAMS({"who", RPC_TEXT, false, 100}), CTL_SHOW},
    {"limit.set", ctl_limit_set,
     PARAMS({"who", RPC_TEXT, true, 100}, {"set", RPC_TEXT, true, 2000}), CTL_ACT},
    {"reload", ctl_reload, NO_PARAMS, CTL_ACT},
    {"upgrade", ctl_upgrade, PARAMS({"program", RPC_TEXT, false, 4000}), CTL_ACT_MORE},
    {"drain", ctl_drain, PARAMS({"off", RPC_BOOL, false, 0}), CTL_ACT},
    {"drain.show", ctl_drain_show, NO_PARAMS, CTL_SHOW_ALL},
    {"log.level", ctl_log_level, PARAMS({"level", RPC_TEXT, true, 20}), CTL_ACT},
    {"events", ctl_events,
     PARAMS({"since_s", RPC_UINT, false, UINT32_MAX}, {"after", RPC_UINT, false, INT64_MAX}),
     CTL_SHOW},
    {"trace", ctl_trace,
     PARAMS({"session", RPC_UINT, false, INT64_MAX}, {"uid", RPC_UINT, false, UINT32_MAX - 1},
            {"tenant", RPC_TEXT, false, RDMAD_NAME_MAX}, {"peer", RPC_TEXT, false, RDMAD_NAME_MAX},
            {"ops", RPC_TEXT, false, 100}, {"failed", RPC_BOOL, false, 0},
            {"slower_us", RPC_UINT, false, UINT32_MAX}, {"begun", RPC_BOOL, false, 0},
            {"more", RPC_BOOL, false, 0}),
     CTL_SHOW},
    {"why", ctl_why, PARAMS({"object", RPC_TEXT, true, 20}, {"id", RPC_ANY_UINT, true, UINT64_MAX}),
     CTL_SHOW},
    {"peer.add", ctl_peer_add, PARAMS({"address", RPC_TEXT, true, 280}), CTL_ACT},
};

static const struct ctl_method *find_method(const char *name) {
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (!strcmp(methods[i].name, name))
            return &methods[i];
    }
    return NULL;
}

int ctl_new(struct state *st, int activated_fd, struct ctl **out, struct error *err) {
    return ctl_listen(st, activated_fd, find_method, out, err);
}
