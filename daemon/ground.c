/* SPDX-License-Identifier: MIT */
#include "daemon/ground.h"
#include "daemon/settings.h"
#include <grp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

void ground_name(struct state *st) {
    const struct config *c = st->config;
    if (c->node_name[0])
        snprintf(st->node_name, sizeof(st->node_name), "%s", c->node_name);
    else if (gethostname(st->node_name, sizeof(st->node_name) - 1))
        snprintf(st->node_name, sizeof(st->node_name), "localhost");
}

int ground_fabric(const struct config *c, uint64_t descriptors, struct plane_settings *out,
                  struct fabric_choice *choice, struct error *err) {
    settings_plane(c, out);
    settings_look_up(&out->fabric_settings);
    out->fabric_settings.descriptors = descriptors;
    return choice_make(c, &out->fabric_settings, choice, err);
}

static int client_group(const char *name, gid_t *out, struct error *err) {
    *out = (gid_t)-1;
    if (!name[0])
        return RDMAD_OK;
    const struct group *g = getgrnam(name);
    if (!g)
        return error_set(err, RDMAD_E_CONFIG, "socket_group: there is no group '%s'", name);
    *out = g->gr_gid;
    return RDMAD_OK;
}

int ground_clients(const struct state *st, char path[GROUND_PATH_MAX], struct listener_spec *spec,
                   struct error *err) {
    const struct config *c = st->config;
    snprintf(path, GROUND_PATH_MAX, "%s/rdmad.sock", c->runtime_dir);
    *spec = (struct listener_spec){.path = path,
                                   .type = SOCK_SEQPACKET,
                                   .mode = c->socket_group[0] ? 0660 : 0666,
                                   .activated = -1,
                                   .kept = st->kept};
    return client_group(c->socket_group, &spec->group, err);
}
