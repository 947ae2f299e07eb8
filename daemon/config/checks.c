/* SPDX-License-Identifier: MIT */
/*
 * checks.c - checks of text settings, and of settings that contradict each other.
 */
#include "daemon/config/checks.h"
#include "common/uri.h"
#include "daemon/config/config.h"
#include "daemon/config/metrics_at.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *setting_check_directory(const char *text) {
    return *text ? NULL : "must name a directory";
}

const char *setting_check_listen(const char *text) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    return rdmad_hostport_parse(text, host, &port);
}

const char *setting_check_metrics(const char *text) {
    struct metrics_at at;
    return metrics_at_parse(text, &at);
}

const char *setting_check_node_name(const char *text) {
    if (!*text || rdmad_name_ok(text))
        return NULL;
    return "must be letters, digits, '.', '_' and '-', not starting with '.'";
}

const char *setting_check_log_level(const char *text) {
    static const char *const levels[] = {"error", "warning", "notice", "info", "debug"};
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
        if (!strcmp(text, levels[i]))
            return NULL;
    return "must be one of error, warning, notice, info, debug";
}

const char *setting_check_absolute(const char *text) {
    return !*text || *text == '/' ? NULL : "must begin with a slash";
}

const char *setting_check_word(const char *text) {
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("_-.", *text))
            return "may only have letters, digits, '_', '-' and '.'";
    return NULL;
}

const char *setting_check_fabric(const char *text) {
    if (!strcmp(text, "auto") || !strcmp(text, "verbs") || !strcmp(text, "tcp"))
        return NULL;
    return "must be one of auto, verbs, tcp";
}

const char *setting_check_connect(const char *text) {
    if (!strcmp(text, "exchange") || !strcmp(text, "cm"))
        return NULL;
    return "must be exchange or cm";
}

const char *setting_check_encrypt(const char *text) {
    if (!strcmp(text, "auto") || !strcmp(text, "off") || !strcmp(text, "always"))
        return NULL;
    return "must be one of auto, off, always";
}

const char *setting_check_windows(const char *text) {
    if (!strcmp(text, "auto") || !strcmp(text, "registrations") || !strcmp(text, "windows"))
        return NULL;
    return "must be one of auto, registrations, windows";
}

/* A number of at most max at the start of *text, which is moved behind it. */
static bool skip_number(const char **text, uint64_t max) {
    uint64_t value = 0;
    if (!isdigit((unsigned char)**text))
        return false;
    for (; isdigit((unsigned char)**text) && value <= max; (*text)++)
        value = value * 10 + (uint64_t)(**text - '0');
    return value <= max;
}

const char *setting_check_gid(const char *text) {
    const char *end = text;
    struct in6_addr address;
    if (!*text || (skip_number(&end, 65535) && !*end) || inet_pton(AF_INET, text, &address) == 1 ||
        inet_pton(AF_INET6, text, &address) == 1)
        return NULL;
    return "must be the index of a GID, or an IP address, as rdmactl device show lists them";
}

const char *setting_check_uids(const char *text) {
    if (!*text || !strcmp(text, "*"))
        return NULL;
    for (;;) {
        if (!skip_number(&text, UINT32_MAX - 1)) /* the largest is nobody's: it means "unchanged" */
            break;
        if (!*text)
            return NULL;
        if (*text++ != ',')
            break;
    }
    return "must be user ids separated by commas (1000,1001), or * alone";
}

static int check_verbs(const struct config *c, struct error *err) {
    uint64_t mtu = c->verbs_mtu;
    if (mtu && (mtu < 256 || (mtu & (mtu - 1))))
        return error_set(err, RDMAD_E_CONFIG,
                         "verbs.mtu is %" PRIu64
                         ", must be 256, 512, 1024, 2048, 4096, or 0 for the port's",
                         mtu);
    if (c->verbs_signal_every > c->verbs_queue_depth)
        return error_set(err, RDMAD_E_CONFIG,
                         "verbs.signal_every (%" PRIu64
                         ") is larger than verbs.queue_depth (%" PRIu64
                         "), so a full queue would never be told of",
                         c->verbs_signal_every, c->verbs_queue_depth);
    return 0;
}

/* By tcp's listeners, or by rdma_cm's: each worker has one. Not if it may be verbs alone. */
static bool listens_for_data(const struct config *c) {
    bool tcp = !strcmp(c->fabric, "tcp") || (c->peer_fallback_tcp && !c->require_rdma);
    return tcp || !strcmp(c->verbs_connect, "cm");
}

int config_check(const struct config *c, struct error *err) {
    if (c->spin_min_us > c->spin_max_us)
        return error_set(err, RDMAD_E_CONFIG,
                         "spin.min_us (%" PRIu64 ") is larger than spin.max_us (%" PRIu64 ")",
                         c->spin_min_us, c->spin_max_us);
    if (c->peer_ping_ms >= c->peer_dead_ms)
        return error_set(err, RDMAD_E_CONFIG,
                         "peer.ping_ms (%" PRIu64 ") must be smaller than peer.dead_ms (%" PRIu64
                         "), or no peer can prove that it lives",
                         c->peer_ping_ms, c->peer_dead_ms);
    if (c->require_rdma && !strcmp(c->fabric, "tcp"))
        return error_set(err, RDMAD_E_CONFIG,
                         "require_rdma is true and fabric is \"tcp\", which uses no RDMA; choose "
                         "fabric \"verbs\" or \"auto\", or leave require_rdma out");
    if (c->workers > 1 && c->tcp_data_port && listens_for_data(c))
        return error_set(err, RDMAD_E_CONFIG,
                         "workers is %" PRIu64 " and tcp.data_port is %" PRIu64
                         ", but each worker takes data connections at a port of its own: leave "
                         "tcp.data_port out, or have one worker",
                         c->workers, c->tcp_data_port);
    return check_verbs(c, err);
}
