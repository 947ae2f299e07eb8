/* SPDX-License-Identifier: MIT */
/*
 * config.h - the daemon's settings, each described once in the table of schema.c.
 *
 * The file is JSON in which line comments starting with two slashes or # are allowed; its keys are
 * those of the table, nested by the dots, and the sections of rules.h. Files of FILE.d/ ending in
 * .json follow in order of name. An unknown key, a wrong type or a value out of range is an error
 * with file, line and column.
 */
#ifndef RDMAD_CONFIG_CONFIG_H
#define RDMAD_CONFIG_CONFIG_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct config {
    char runtime_dir[80];               /* sockets live here; bounded by sun_path */
    char listen[280];                   /* HOST:PORT of the peer control channel */
    char node_name[RDMAD_NAME_MAX + 1]; /* "" : the host's name */
    char log_level[16];                 /* error warning notice info debug */
    char audit_file[256];               /* an absolute path; "": none */
    char metrics_listen[64];            /* as metrics_at.h has it; "": nowhere */
    bool require_rdma;
    char fabric[8];         /* auto verbs tcp */
    char identity_dir[256]; /* "": beside the configuration */
    char socket_group[33];  /* group that may connect to rdmad.sock; "" : everybody may */

    uint64_t workers, spin_min_us, spin_max_us, client_spin_us;
    uint64_t op_default_timeout_ms, drain_timeout_ms;

    uint64_t max_sessions, max_sessions_uid;
    uint64_t max_pool_bytes, max_pool_bytes_uid, max_pool_bytes_session;
    uint64_t max_registered_bytes, max_registered_bytes_uid, max_registered_bytes_session;
    uint64_t max_pools_session, max_rings_session, max_leases_session, max_attaches_session;
    uint64_t max_services_session, max_channels_session, max_mappings, max_mappings_uid;
    uint64_t max_pools_uid, max_rings_uid, max_leases_uid, max_attaches_uid;
    uint64_t max_services_uid, max_channels_uid, max_questions_uid;
    uint64_t max_session_ops;
    uint64_t max_ops, max_ops_uid, max_waits, max_waits_uid, max_waits_session;
    uint64_t max_calls_uid, max_questions_session;

    uint64_t lease_max_ttl_ms, lease_revoke_grace_ms, lease_tombstones;
    uint64_t attach_timeout_ms;

    uint64_t max_peers, max_peer_attaches;
    uint64_t peer_ping_ms, peer_dead_ms, peer_return_ms, peer_idle_ms;

    char tcp_congestion_control[16], tcp_encrypt[8];
    uint64_t tcp_data_port, tcp_dead_peer_ms, tcp_connect_timeout_ms;

    char peer_private_links[256]; /* uids, comma separated, or "*" */
    bool peer_dial_named, peer_fallback_tcp, peer_insecure;

    char verbs_device[64];  /* "": the best */
    char verbs_gid[46];     /* "": by rule; else an index or an address */
    char verbs_connect[16]; /* exchange cm */
    char verbs_windows[16]; /* auto registrations windows */
    bool verbs_odp;
    uint64_t verbs_port, verbs_lanes, verbs_queue_depth, verbs_max_message_bytes;
    uint64_t verbs_inline_bytes, verbs_signal_every, verbs_mtu, verbs_pkey_index;
    uint64_t verbs_service_level, verbs_traffic_class;
    uint64_t verbs_timeout, verbs_retry_count, verbs_rnr_retry;
    uint64_t verbs_rd_atomic, verbs_dest_rd_atomic, verbs_quiesce_ms, verbs_links_per_peer;

    struct rules *rules; /* policy and sockets (rules.h), config_free's; NULL: none were read */
};

struct rules;

/* The defaults of the table. */
void config_defaults(struct config *c);
/* Frees what the settings hold; they may be loaded again. A copy of them must not be freed, too. */
void config_free(struct config *c);

/* Where each setting was set last, "FILE:LINE:COLUMN" or a command line option; "": nowhere. */
struct config_places;
struct config_places *config_places_new(void); /* NULL: out of memory; free() */

/* Reads file (NULL: none) and its .d directory over what c holds. c changes only on success. places
 * may be NULL. */
int config_load(struct config *c, const char *file, struct config_places *places,
                struct error *err);

/* Parses one text as if it were a file called name: what config_load and the fuzzer use. */
int config_parse(struct config *c, const char *name, const char *text, size_t size,
                 struct error *err);

/* Checks one value that came from the command line, by key; option is its place. */
int config_set(struct config *c, const char *key, const char *value, struct error *err);
void config_set_at(struct config_places *places, const char *key, const char *option);

/* Checks for settings that contradict each other. config_load and config_parse do it; whoever
 * changes settings afterwards does it again. */
int config_check(const struct config *c, struct error *err);

/* Checks for what was set and this machine does not have: a group, a directory, a congestion
 * control. The sentence begins with the place of the setting. */
int config_check_machine(const struct config *c, const struct config_places *places,
                         struct error *err);

/* Whether moving from a to b needs a restart; names the first such key in *key. */
bool config_needs_restart(const struct config *a, const struct config *b, const char **key);

/* Tells every key in the table's order with its value as a file would have it (a JSON literal). */
void config_each(const struct config *c,
                 void (*each)(void *arg, const char *key, const char *literal), void *arg);

/* Prints the table as a commented configuration file (config/rdmad.json is this output). */
void config_print_reference(FILE *out);

#endif
