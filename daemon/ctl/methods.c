/* SPDX-License-Identifier: MIT */
/*
 * methods.c - everything that may be called over control.sock: name, handler, params, and whether
 * it changes anything. rdmactl(8) documents each.
 */
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/handlers.h"
#include <string.h>

#define NO_PARAMS ((const struct rpc_param[]){{NULL, RPC_END, false, 0}})
#define PARAMS(...) ((const struct rpc_param[]){__VA_ARGS__, {NULL, RPC_END, false, 0}})

static const struct ctl_method methods[] = {
    {"status", ctl_status, NO_PARAMS, false},
    {"metrics", ctl_metrics, NO_PARAMS, false},
    {"config.show", ctl_config_show, NO_PARAMS, false},
    {"device.show", ctl_device_show, PARAMS({"verbose", RPC_BOOL, false, 0}), false},
    {"session.show", ctl_session_show, NO_PARAMS, false},
    {"pool.show", ctl_pool_show, NO_PARAMS, false},
    {"lease.show", ctl_lease_show, PARAMS({"all", RPC_BOOL, false, 0}), false},
    {"peer.show", ctl_peer_show, NO_PARAMS, false},
    {"link.show", ctl_link_show, NO_PARAMS, false},
    {"channel.show", ctl_channel_show, NO_PARAMS, false},
    {"service.show", ctl_service_show, NO_PARAMS, false},
    {"lease.revoke", ctl_lease_revoke, PARAMS({"id", RPC_UINT, true, INT64_MAX}), true},
    {"reload", ctl_reload, NO_PARAMS, true},
    {"peer.add", ctl_peer_add, PARAMS({"address", RPC_TEXT, true, 280}), true},
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
