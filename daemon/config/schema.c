/* SPDX-License-Identifier: MIT */
/*
 * schema.c - the settings of rdmad. To add one: a field in struct config, a row here, and a new
 * config/rdmad.json from `rdmad --print-config-reference`.
 */
#include "daemon/config/schema.h"
#include "daemon/config/checks.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MINUTES UINT64_C(60000) /* in ms */
#define DAYS (24 * 60 * MINUTES)
#define BYTES_MAX (UINT64_C(1) << 50)
#define RELOAD false
#define RESTART true

#define FIELD(f) .offset = offsetof(struct config, f), .size = sizeof(((struct config *)0)->f)
#define NUMBER(k, f, lo, hi, def, u, r, h)                                                       \
    {                                                                                            \
        .key = (k), .type = SETTING_NUMBER, FIELD(f), .min = (lo), .max = (hi), .number = (def), \
        .unit = (u), .restart = (r), .help = (h)                                                 \
    }
#define TEXT(k, f, def, c, r, h)                                                             \
    {                                                                                        \
        .key = (k), .type = SETTING_TEXT, FIELD(f), .text = (def), .check = (c), .unit = "", \
        .restart = (r), .help = (h)                                                          \
    }
#define BOOL(k, f, def, r, h)                                                                    \
    {                                                                                            \
        .key = (k), .type = SETTING_BOOL, FIELD(f), .number = (def), .unit = "", .restart = (r), \
        .help = (h)                                                                              \
    }

const struct setting settings[] = {
    TEXT("runtime_dir", runtime_dir, "/run/rdmad", setting_check_directory, RESTART,
         "Where the sockets live: rdmad.sock for clients, control.sock for administration."),
    TEXT("listen", listen, "127.0.0.1:7471", setting_check_listen, RESTART,
         "HOST:PORT where other daemons reach this one; port 0 takes any free one. Beyond loopback "
         "only a daemon with an identity listens (identity.dir), or one with peer.insecure."),
    TEXT("node_name", node_name, "", setting_check_node_name, RESTART,
         "What this daemon calls itself to others. Empty: the name in its certificate, or without "
         "one the host's. With an identity it must be the certificate's."),
    TEXT("identity.dir", identity_dir, "", NULL, RESTART,
         "Where this node's certificate is, its key and whom it trusts (rdmactl cluster init or "
         "join makes them). Daemons with an identity talk to each other by TLS 1.3, and to no "
         "others. Empty: identity/ beside the configuration, or rdmad/identity if that is in a "
         "directory named etc; without one /etc/rdmad/identity."),
    TEXT("log_level", log_level, "info", setting_check_log_level, RELOAD,
         "The least important level to log: error, warning, notice, info or debug."),
    TEXT("audit.file", audit_file, "", setting_check_absolute, RELOAD,
         "File to which each event of the audit is appended as a line of JSON, beside the log: who "
         "was admitted, refused, granted, revoked, throttled. Made with mode 0600, and opened anew "
         "at each reload. The service may write in /var/log/rdmad. Empty: none."),
    TEXT(
        "metrics.listen", metrics_listen, "", setting_check_metrics, RESTART,
        "Where GET /metrics is answered by HTTP, for Prometheus: an address of loopback and a port "
        "(127.0.0.1:9471), where every user of this machine can read them; or unix: "
        "RUNTIME_DIR/metrics.sock, for the daemon's user and group; or both (unix,127.0.0.1:9471). "
        "Empty: nowhere; rdmactl metrics shows the same."),
    BOOL("require_rdma", require_rdma, false, RESTART,
         "Refuse to start without RDMA hardware instead of using TCP, and refuse peers that have "
         "none."),
    TEXT("fabric", fabric, "auto", setting_check_fabric, RESTART,
         "What moves bytes between daemons: verbs (RDMA hardware, or Soft-RoCE), tcp, or auto: "
         "verbs when this machine has a usable RDMA device, else tcp, and the log says why. Two "
         "daemons use the best that both have; see peer.fallback_tcp."),
    TEXT("socket_group", socket_group, "", setting_check_word, RESTART,
         "Group whose members may connect to rdmad.sock, whoever made it. Empty: everybody may."),
    NUMBER("workers", workers, 1, 64, 1, "", RESTART,
           "Threads that move data. One is enough until it is busy all the time."),
    NUMBER("drain_timeout_ms", drain_timeout_ms, 0, 10 * MINUTES, 5000, "ms", RELOAD,
           "How long a stopping daemon waits for sessions and peers to let go."),

    NUMBER("spin.min_us", spin_min_us, 0, 1000000, 2, "us", RELOAD,
           "A worker looks for new work at least this long before it sleeps; shorter where other "
           "programs want its CPU."),
    NUMBER("spin.max_us", spin_max_us, 0, 1000000, 200, "us", RELOAD,
           "The longest that a worker looks for new work before it sleeps, when that has paid off "
           "lately."),
    NUMBER("spin.client_us", client_spin_us, 0, 1000000, 200, "us", RELOAD,
           "What clients are advised to spin for at most before they sleep; librdmad spins for no "
           "more than 10000 us."),

    NUMBER("op.default_timeout_ms", op_default_timeout_ms, 1, 60 * MINUTES, 10000, "ms", RESTART,
           "Deadline of an op whose client did not set one. Longer ones are cut to an hour."),
    NUMBER("op.max_per_session", max_session_ops, 1, 65536, 4096, "ops", RESTART,
           "Ops that one session may have in flight."),

    NUMBER("limits.sessions", max_sessions, 1, 65536, 4096, "", RELOAD,
           "Sessions of all clients together."),
    NUMBER("limits.sessions_per_uid", max_sessions_uid, 1, 65536, 2048, "", RELOAD,
           "Sessions of one user."),
    NUMBER("limits.pool_bytes", max_pool_bytes, 0, BYTES_MAX, 0, "bytes", RELOAD,
           "Memory of all pools and rings together. 0: half of the machine's memory."),
    NUMBER("limits.pool_bytes_per_uid", max_pool_bytes_uid, 0, BYTES_MAX, 0, "bytes", RELOAD,
           "Memory of one user's pools and rings. 0: three quarters of limits.pool_bytes."),
    NUMBER("limits.pool_bytes_per_session", max_pool_bytes_session, 0, BYTES_MAX, 0, "bytes",
           RELOAD, "Memory of one session's pools and rings. 0: half of limits.pool_bytes."),
    NUMBER("limits.registered_bytes", max_registered_bytes, 0, BYTES_MAX, 0, "bytes", RELOAD,
           "Leased memory that other daemons may reach, counted once for each lessee: devices "
           "register it anew for each. 0: 16 times limits.pool_bytes."),
    NUMBER("limits.registered_bytes_per_uid", max_registered_bytes_uid, 0, BYTES_MAX, 0, "bytes",
           RELOAD, "limits.registered_bytes of one user. 0: 16 times limits.pool_bytes_per_uid."),
    NUMBER("limits.registered_bytes_per_session", max_registered_bytes_session, 0, BYTES_MAX, 0,
           "bytes", RELOAD,
           "limits.registered_bytes of one session. 0: 16 times limits.pool_bytes_per_session."),
    NUMBER("limits.pools_per_session", max_pools_session, 1, 65536, 256, "", RELOAD,
           "Pools of one session."),
    NUMBER("limits.pools_per_uid", max_pools_uid, 0, 1 << 26, 0, "", RELOAD,
           "Pools, of all sessions of one user. 0: as many as 64 sessions may have."),
    NUMBER("limits.rings_per_session", max_rings_session, 1, 4096, 64, "", RELOAD,
           "Rings of one session; each thread of a client wants one."),
    NUMBER("limits.rings_per_uid", max_rings_uid, 0, 1 << 26, 0, "", RELOAD,
           "Rings, of all sessions of one user. 0: as many as 64 sessions may have."),
    NUMBER("limits.leases_per_session", max_leases_session, 1, 1048576, 1024, "", RELOAD,
           "Leases that one session may have granted at one time."),
    NUMBER("limits.leases_per_uid", max_leases_uid, 0, 1 << 30, 0, "", RELOAD,
           "Leases granted, of all sessions of one user. 0: as many as 64 sessions may have."),
    NUMBER("limits.attaches_per_session", max_attaches_session, 1, 1048576, 1024, "", RELOAD,
           "Leases that one session may be attached to at one time."),
    NUMBER("limits.attaches_per_uid", max_attaches_uid, 0, 1 << 30, 0, "", RELOAD,
           "Attached leases, of all sessions of one user. 0: as many as 64 sessions may have."),
    NUMBER("limits.services_per_session", max_services_session, 1, 65536, 64, "", RELOAD,
           "Services that one session may offer at one time."),
    NUMBER("limits.services_per_uid", max_services_uid, 0, 1 << 26, 0, "", RELOAD,
           "Services, of all sessions of one user. 0: as many as 64 sessions may have."),
    NUMBER("limits.channels_per_session", max_channels_session, 1, 65536, 1024, "", RELOAD,
           "Channels of one session, with the connections that wait for its services to accept "
           "them."),
    NUMBER("limits.channels_per_uid", max_channels_uid, 0, 1 << 26, 0, "", RELOAD,
           "Channels, of all sessions of one user. 0: as many as 64 sessions may have."),
    NUMBER("limits.questions_per_session", max_questions_session, 1, 65536, 256, "", RELOAD,
           "Questions of one session that wait at other daemons: lists and watches of their names, "
           "parts of their leases. Of one daemon's, a user may have half."),
    NUMBER("limits.questions_per_uid", max_questions_uid, 0, 1 << 26, 0, "", RELOAD,
           "Questions, of all sessions of one user. 0: as many as 64 sessions may have."),
    NUMBER("limits.ops", max_ops, 64, UINT64_C(1) << 32, UINT64_C(1) << 18, "ops", RESTART,
           "Transfers and sends in flight of all sessions together, but for the first 64 of each "
           "session; what is more waits in its ring. Each takes about 600 bytes of the daemon."),
    NUMBER("limits.ops_per_uid", max_ops_uid, 64, UINT64_C(1) << 32, UINT64_C(1) << 17, "ops",
           RESTART,
           "Transfers and sends in flight of all sessions of one user; for one session see "
           "op.max_per_session."),
    NUMBER("limits.waits", max_waits, 64, UINT64_C(1) << 32, UINT64_C(1) << 18, "ops", RESTART,
           "Receives, and waits for notifications, that are posted by all sessions together. Each "
           "takes about 600 bytes of the daemon."),
    NUMBER("limits.waits_per_uid", max_waits_uid, 64, UINT64_C(1) << 32, UINT64_C(1) << 17, "ops",
           RESTART, "Receives, and waits for notifications, posted by all sessions of one user."),
    NUMBER("limits.waits_per_session", max_waits_session, 64, UINT64_C(1) << 32, UINT64_C(1) << 16,
           "ops", RESTART,
           "Receives, and waits for notifications, posted by one session; 16 of the largest rings "
           "have room for so many."),

    NUMBER("limits.mappings", max_mappings, 0, 1 << 30, 0, "", RELOAD,
           "Mappings of all pools and rings together: a pool is one, a ring two. 0, and at most: "
           "three quarters of vm.max_map_count."),
    NUMBER("limits.mappings_per_uid", max_mappings_uid, 0, 1 << 30, 0, "", RELOAD,
           "Mappings of one user's pools and rings. 0: a quarter of limits.mappings."),
    NUMBER("limits.calls_per_second_per_uid", max_calls_uid, 1, 1000000000, 20000, "", RELOAD,
           "Requests of one user's sessions (all but transfers and messages, which go by rings) in "
           "a second. What comes faster waits in its socket."),

    NUMBER("lease.max_ttl_ms", lease_max_ttl_ms, 1, 365 * DAYS, 7 * DAYS, "ms", RELOAD,
           "The longest life that a lease may be granted or renewed for."),
    NUMBER("lease.revoke_grace_ms", lease_revoke_grace_ms, 0, MINUTES, 100, "ms", RELOAD,
           "How long a revoked lessee may take to stop by itself before it is cut off."),
    NUMBER("lease.tombstones", lease_tombstones, 0, 1048576, 1024, "", RELOAD,
           "Ended leases that are remembered, to tell their holders why they ended."),
    NUMBER("lease.attach_timeout_ms", attach_timeout_ms, 1, 10 * MINUTES, 5000, "ms", RELOAD,
           "How long an attach may take when its client did not say."),

    NUMBER("peer.max", max_peers, 1, 65536, 256, "", RELOAD,
           "Connections with other daemons: half for those that connect to this one, shared by "
           "address, half for those that it dials, shared by the user who has it dial."),
    NUMBER("peer.attaches", max_peer_attaches, 2, 65536, 4096, "", RELOAD,
           "Attachments of one other daemon to leases here, and of ours to its leases; one user "
           "may have half of ours. Holds for connections that are made later."),
    NUMBER("peer.ping_ms", peer_ping_ms, 10, 10 * MINUTES, 2000, "ms", RELOAD,
           "How often a silent peer with leases in use is asked whether it is alive."),
    NUMBER("peer.dead_ms", peer_dead_ms, 20, 60 * MINUTES, 10000, "ms", RELOAD,
           "Silence after which a peer with leases in use is given up."),
    NUMBER(
        "peer.return_ms", peer_return_ms, 0, 10 * MINUTES, 15000, "ms", RELOAD,
        "How long the leases and channels of a peer that was lost are waited for, and ops on them "
        "with them, before they end: it may only be started again. Less than peer.dead_ms is too "
        "short for a loss of the network, which the two connections of a channel notice so far "
        "apart. Only for sessions that outlive their daemon. 0: they end at once."),
    NUMBER("peer.idle_ms", peer_idle_ms, 0, DAYS, MINUTES, "ms", RELOAD,
           "A connection that this daemon opened is closed after so long without any lease. 0: "
           "never."),
    TEXT("peer.private_links", peer_private_links, "", setting_check_uids, RELOAD,
         "Whose sessions get a link of their own to each peer instead of sharing one: user ids, "
         "separated by commas, or * for everybody. Each link costs queue pairs or a connection."),
    BOOL("peer.dial_named", peer_dial_named, false, RELOAD,
         "Dial a daemon whose client connects to a service here back at whatever address it names, "
         "not only at the one that it connects from: for hosts that connect from another address "
         "than they listen on. Whoever reaches listen can then make this daemon connect anywhere."),
    BOOL("peer.insecure", peer_insecure, false, RESTART,
         "Without an identity, listen and dial beyond loopback all the same: nobody proves who he "
         "is, and everything can be read and changed on the way. Only for closed test networks; it "
         "is a warning in status, doctor and the log. With an identity it changes nothing."),
    BOOL("peer.fallback_tcp", peer_fallback_tcp, true, RESTART,
         "With fabric verbs: pair with daemons that have no RDMA, too, over tcp. Each such peer is "
         "a warning in the log. Two daemons that both have verbs never use tcp. With require_rdma "
         "this is off."),

    TEXT("tcp.congestion_control", tcp_congestion_control, "cubic", setting_check_word, RESTART,
         "Of data connections. bbr, the default of many hosts, costs 3 to 4 times on fast short "
         "paths. Empty: the system's."),
    NUMBER("tcp.data_port", tcp_data_port, 0, 65535, 0, "", RESTART,
           "Where data connections arrive, on the host of listen; with fabric verbs those of peers "
           "without it (peer.fallback_tcp). 0: any free port. With several workers each has its "
           "own, so it must be 0 then, and a firewall has to let in net.ipv4.ip_local_port_range."),
    NUMBER("tcp.dead_peer_ms", tcp_dead_peer_ms, 10, 60 * MINUTES, 5000, "ms", RESTART,
           "Silence with ops outstanding after which a link is lost."),
    NUMBER("tcp.connect_timeout_ms", tcp_connect_timeout_ms, 1, 10 * MINUTES, 5000, "ms", RESTART,
           "How long a data connection may take to be made, and then to prove whose it is."),
    TEXT("tcp.encrypt", tcp_encrypt, "auto", setting_check_encrypt, RESTART,
         "Data connections are encrypted: auto (with peers whose control connection is secured by "
         "mutual TLS), always (with every peer; where the control connection is not secured, that "
         "keeps out who only listens) or off. If two daemons differ, their data is encrypted."),

    TEXT("verbs.device", verbs_device, "", setting_check_word, RESTART,
         "RDMA device to use, as rdmactl device show lists them. Empty: the best one."),
    NUMBER("verbs.port", verbs_port, 0, 255, 0, "", RESTART, "Port of it. 0: the best one."),
    TEXT("verbs.gid", verbs_gid, "", setting_check_gid, RESTART,
         "GID of the port, by its index or by its address. An index can change when addresses "
         "do, an address is found again. Empty: by rule, RoCE v2 before v1, routable before "
         "link-local, the address of listen before others."),
    TEXT("verbs.connect", verbs_connect, "exchange", setting_check_connect, RESTART,
         "How queue pairs are connected: exchange (numbers travel over the peer control channel) "
         "or cm (by rdma_cm, which iWARP needs)."),
    TEXT("verbs.windows", verbs_windows, "auto", setting_check_windows, RESTART,
         "How leases are protected: windows (type-2 memory windows, even when the self-test at "
         "start found that the device does not enforce them: for tests only), registrations (of "
         "exactly the leased range), or auto (windows where the self-test shows that they hold)."),
    BOOL("verbs.odp", verbs_odp, false, RESTART,
         "Register pools without pinning them (on-demand paging), where the device can."),
    NUMBER("verbs.lanes", verbs_lanes, 1, 8, 1, "", RESTART,
           "Queue pairs of one link, each way. Ops are spread over them."),
    NUMBER("verbs.queue_depth", verbs_queue_depth, 4, 65536, 256, "", RESTART,
           "Work requests in flight on one queue pair. Cut to what the device can."),
    NUMBER("verbs.max_message_bytes", verbs_max_message_bytes, 4096, UINT64_C(1) << 31,
           UINT64_C(1) << 20, "bytes", RESTART,
           "Bytes of one work request; larger transfers are several. Cut to what the port can."),
    NUMBER("verbs.inline_bytes", verbs_inline_bytes, 0, 4096, 64, "bytes", RESTART,
           "Writes up to this travel inside their work request. Cut to what the device can."),
    NUMBER("verbs.signal_every", verbs_signal_every, 1, 4096, 16, "", RESTART,
           "Of so many work requests at least one asks for a completion."),
    NUMBER("verbs.mtu", verbs_mtu, 0, 4096, 0, "bytes", RESTART,
           "Path MTU: 256, 512, 1024, 2048 or 4096. 0: the smaller of the two ports'."),
    NUMBER("verbs.pkey_index", verbs_pkey_index, 0, 65535, 0, "", RESTART,
           "Index of the partition key in the port's table. InfiniBand only."),
    NUMBER("verbs.service_level", verbs_service_level, 0, 15, 0, "", RESTART,
           "InfiniBand service level; RoCE maps it to a VLAN priority."),
    NUMBER("verbs.traffic_class", verbs_traffic_class, 0, 255, 0, "", RESTART,
           "Traffic class (RoCE v2: the IP header's, four times the DSCP). Lossless RoCE networks "
           "choose the queue by it."),
    NUMBER("verbs.timeout", verbs_timeout, 1, 31, 14, "", RESTART,
           "A packet is sent again after 4.096 us times 2 to this power without an answer; 14 is "
           "67 ms. 0, for ever, is not possible."),
    NUMBER("verbs.retry_count", verbs_retry_count, 0, 7, 6, "", RESTART,
           "How often it is sent again before the link is lost. Some devices take 7 for without "
           "end, so that a vanished peer is never noticed."),
    NUMBER("verbs.rnr_retry", verbs_rnr_retry, 0, 7, 6, "", RESTART,
           "How often a peer that is not ready is asked again. 7 is without end."),
    NUMBER("verbs.rd_atomic", verbs_rd_atomic, 1, 255, 16, "", RESTART,
           "Reads in flight that we start on one queue pair. Cut to what both devices can."),
    NUMBER("verbs.dest_rd_atomic", verbs_dest_rd_atomic, 1, 255, 16, "", RESTART,
           "Reads in flight that a peer may start on one queue pair. Cut to what both devices "
           "can."),
    NUMBER("verbs.quiesce_ms", verbs_quiesce_ms, 10, MINUTES, 1000, "ms", RESTART,
           "How long an op past its deadline may take to end in the device before its link is "
           "broken to get its memory back."),
    NUMBER("verbs.links_per_peer", verbs_links_per_peer, 1, 4096, 64, "", RESTART,
           "Links that one peer may have to this daemon."),
};
const size_t settings_count = sizeof(settings) / sizeof(settings[0]);

const struct setting *setting_find(const char *key) {
    for (size_t i = 0; i < settings_count; i++)
        if (!strcmp(settings[i].key, key))
            return &settings[i];
    return NULL;
}

bool setting_is_section(const char *section) {
    size_t n = strlen(section);
    for (size_t i = 0; i < settings_count; i++)
        if (!strncmp(settings[i].key, section, n) && settings[i].key[n] == '.')
            return true;
    return false;
}

#define NEAR_MAX 64u /* longer keys are like none of ours */

/* Levenshtein's distance, one row at a time. */
static size_t distance(const char *a, const char *b) {
    size_t row[NEAR_MAX + 1], n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < least ? change : least;
        }
    }
    return row[n];
}

const char *setting_nearest(const char *key) {
    size_t length = strlen(key), best = length / 3 + 2;
    const char *nearest = NULL;
    if (length > NEAR_MAX)
        return NULL;
    for (size_t i = 0; i < settings_count; i++) {
        /* A key put into the wrong section, or into none, is near as well. */
        const char *dot = strchr(settings[i].key, '.'), *own = strrchr(key, '.');
        if (!strcmp(dot ? dot + 1 : settings[i].key, own ? own + 1 : key))
            return settings[i].key;
        size_t d = distance(key, settings[i].key);
        if (d < best) {
            best = d;
            nearest = settings[i].key;
        }
    }
    return nearest;
}

bool *setting_bool(const struct setting *s, struct config *c) {
    return (bool *)((char *)c + s->offset);
}

uint64_t *setting_number(const struct setting *s, struct config *c) {
    return (uint64_t *)((char *)c + s->offset);
}

char *setting_text(const struct setting *s, struct config *c) {
    return (char *)c + s->offset;
}

int setting_number_error(const struct setting *s, int64_t value, struct error *err) {
    return error_set(err, RDMAD_E_CONFIG,
                     "%s is %" PRId64 ", must be from %" PRIu64 " to %" PRIu64 "%s%s", s->key,
                     value, s->min, s->max, *s->unit ? " " : "", s->unit);
}

int setting_store_number(const struct setting *s, struct config *c, uint64_t value,
                         struct error *err) {
    if (value < s->min || value > s->max)
        return setting_number_error(s, value > INT64_MAX ? INT64_MAX : (int64_t)value, err);
    *setting_number(s, c) = value;
    return 0;
}

int setting_store_text(const struct setting *s, struct config *c, const char *value,
                       struct error *err) {
    size_t n = strlen(value);
    if (n >= s->size)
        return error_set(err, RDMAD_E_CONFIG, "%s has %zu characters, at most %zu are possible",
                         s->key, n, s->size - 1);
    const char *wrong = s->check ? s->check(value) : NULL;
    if (wrong)
        return error_set(err, RDMAD_E_CONFIG, "%s \"%s\": %s", s->key, value, wrong);
    memset(setting_text(s, c), 0, s->size);
    memcpy(setting_text(s, c), value, n);
    return 0;
}

void config_defaults(struct config *c) {
    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *s = &settings[i];
        if (s->type == SETTING_TEXT)
            strcpy(setting_text(s, c), s->text);
        else if (s->type == SETTING_BOOL)
            *setting_bool(s, c) = s->number != 0;
        else
            *setting_number(s, c) = s->number;
    }
}

bool config_needs_restart(const struct config *a, const struct config *b, const char **key) {
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *s = &settings[i];
        if (s->restart &&
            memcmp((const char *)a + s->offset, (const char *)b + s->offset, s->size)) {
            *key = s->key;
            return true;
        }
    }
    return false;
}
