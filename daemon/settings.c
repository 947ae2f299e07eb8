/* SPDX-License-Identifier: MIT */
/*
 * settings.c - from the table's milliseconds to the parts' nanoseconds; constants that nobody has a
 * reason to set; and reload, by the table.
 */
#include "daemon/settings.h"
#include "common/uri.h"
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/config/schema.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Keeps a client from holding buffers and ops without end; what takes longer is asked for again. */
#define OP_TIMEOUT_MAX_NS (3600 * NSEC_PER_SEC)
/* What is on its way when a lease ends must have arrived or been stopped before its owner has the
 * memory back: some round trips of a data centre, and a thread that has to wake up. */
#define LEASE_EXPIRY_MARGIN_NS (2 * NSEC_PER_MSEC)
/* Fills the paths of a data centre: 1024 ops of 4 KiB are what 100 Gbit/s carry in 330 us. */
#define TCP_OPS_IN_FLIGHT 1024
/* Behind a socket's own buffer, so that it never runs dry between two turns: 4 MiB are 330 us of
 * 100 Gbit/s. More would only be memory and waiting. */
#define TCP_SEND_QUEUE_BYTES (UINT64_C(4) << 20)
/* A daemon shows its token with its first bytes. The oldest gives way, so a flood costs this many
 * descriptors a worker and no more. */
#define TCP_STRANGERS_MAX 64
/* As the kernel's of IP: more hops than any path has. */
#define VERBS_HOP_LIMIT 64
/* What a peer waits when we are not ready, as InfiniBand codes it: 0.64 ms. */
#define VERBS_MIN_RNR_TIMER 12

static enum window_choice windows_choice(const char *text) {
    if (!strcmp(text, "windows"))
        return WINDOWS_FORCED;
    return strcmp(text, "registrations") ? WINDOWS_AUTO : WINDOWS_REGISTRATIONS;
}

static void verbs_part(const struct config *c, struct verbs_settings *out) {
    *out = (struct verbs_settings){
        .port = (unsigned)c->verbs_port,
        .cm = !strcmp(c->verbs_connect, "cm"),
        .windows = windows_choice(c->verbs_windows),
        .odp = c->verbs_odp,
        .lanes = (uint32_t)c->verbs_lanes,
        .queue_depth = (uint32_t)c->verbs_queue_depth,
        .inline_bytes = (uint32_t)c->verbs_inline_bytes,
        .signal_every = (uint32_t)c->verbs_signal_every,
        .max_message = c->verbs_max_message_bytes,
        .mtu = (uint32_t)c->verbs_mtu,
        .pkey_index = (uint16_t)c->verbs_pkey_index,
        .service_level = (uint8_t)c->verbs_service_level,
        .traffic_class = (uint8_t)c->verbs_traffic_class,
        .hop_limit = VERBS_HOP_LIMIT,
        .timeout = (uint8_t)c->verbs_timeout,
        .retry_count = (uint8_t)c->verbs_retry_count,
        .rnr_retry = (uint8_t)c->verbs_rnr_retry,
        .min_rnr_timer = VERBS_MIN_RNR_TIMER,
        .rd_atomic = (uint8_t)c->verbs_rd_atomic,
        .dest_rd_atomic = (uint8_t)c->verbs_dest_rd_atomic,
        .quiesce_ns = c->verbs_quiesce_ms * NSEC_PER_MSEC,
        .links_per_peer = (uint32_t)c->verbs_links_per_peer,
    };
    snprintf(out->device, sizeof(out->device), "%s", c->verbs_device);
    snprintf(out->gid, sizeof(out->gid), "%s", c->verbs_gid);
}

static void fabric_part(const struct config *c, struct fabric_settings *out) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    if (!rdmad_hostport_parse(c->listen, host, &port))
        snprintf(out->listen_host, sizeof(out->listen_host), "%s", host);
    snprintf(out->congestion_control, sizeof(out->congestion_control), "%s",
             c->tcp_congestion_control);
    out->data_port = (uint16_t)c->tcp_data_port;
    out->max_inflight = TCP_OPS_IN_FLIGHT;
    out->send_buffer_bytes = TCP_SEND_QUEUE_BYTES;
    out->connect_timeout_ns = c->tcp_connect_timeout_ms * NSEC_PER_MSEC;
    /* An invited peer has all the time that connecting may take, and as much for the offer to reach
     * it. */
    out->token_ttl_ns = 2 * out->connect_timeout_ns;
    out->dead_peer_ns = c->tcp_dead_peer_ms * NSEC_PER_MSEC;
    out->max_strangers = TCP_STRANGERS_MAX;
    out->encrypt = !strcmp(c->tcp_encrypt, "off")      ? ENCRYPT_OFF
                   : !strcmp(c->tcp_encrypt, "always") ? ENCRYPT_ALWAYS
                                                       : ENCRYPT_AUTO;
    verbs_part(c, &out->verbs);
}

void settings_look_up(struct fabric_settings *out) {
    out->listen_count = address_look_up(out->listen_host, out->listen_at, FABRIC_LISTEN_MAX);
}

void settings_plane(const struct config *c, struct plane_settings *out) {
    *out = (struct plane_settings){
        .workers = (unsigned)c->workers,
        .spin_min_ns = c->spin_min_us * NSEC_PER_USEC,
        .spin_max_ns = c->spin_max_us * NSEC_PER_USEC,
        .default_timeout_ns = c->op_default_timeout_ms * NSEC_PER_MSEC,
        .max_timeout_ns = OP_TIMEOUT_MAX_NS,
        .expiry_margin_ns = LEASE_EXPIRY_MARGIN_NS,
        .max_session_ops = (uint32_t)c->max_session_ops,
        .max_uid_ops = c->max_ops_uid,
        .max_ops = c->max_ops,
        .max_session_waits = c->max_waits_session,
        .max_uid_waits = c->max_waits_uid,
        .max_waits = c->max_waits,
        .keeps_last = true,
    };
    fabric_part(c, &out->fabric_settings);
}

#define VALUE_WORDS 64u  /* a longer text is cut */
#define CHANGES_MAX 200u /* bytes; room is left for what is said before and after */

static const char *value_words(const struct setting *s, const struct config *c,
                               char words[VALUE_WORDS]) {
    const char *at = (const char *)c + s->offset;
    uint64_t number;
    bool on;
    if (s->type == SETTING_NUMBER) {
        memcpy(&number, at, sizeof(number));
        snprintf(words, VALUE_WORDS, "%" PRIu64, number);
    } else if (s->type == SETTING_BOOL) {
        memcpy(&on, at, sizeof(on));
        snprintf(words, VALUE_WORDS, "%s", on ? "true" : "false");
    } else {
        snprintf(words, VALUE_WORDS, "\"%.60s\"", at);
    }
    return words;
}

static void changes_add(struct settings_changes *ch, const char *words) {
    const char *comma = ch->length ? ", " : "";
    size_t n = strlen(comma) + strlen(words);
    if (ch->more || ch->length + n > CHANGES_MAX) {
        ch->more++;
        return;
    }
    snprintf(ch->text + ch->length, sizeof(ch->text) - ch->length, "%s%s", comma, words);
    ch->length += n;
}

static void setting_changed(struct settings_changes *ch, const struct setting *s,
                            const struct config *was, const struct config *is) {
    char before[VALUE_WORDS], after[VALUE_WORDS], words[2 * VALUE_WORDS + 100];
    snprintf(words, sizeof(words), "%s %s -> %s%s", s->key, value_words(s, was, before),
             value_words(s, is, after), s->restart ? " at the next start" : "");
    changes_add(ch, words);
}

/* Those between the rules at both ends that are as they were. Their order counts. */
static void rules_changed(struct settings_changes *ch, const char *key, struct rule *const *was,
                          unsigned nwas, struct rule *const *is, unsigned nis) {
    char words[CHANGES_MAX], place[CHANGES_MAX / 2] = "";
    while (nwas && nis && rule_same(was[0], is[0]))
        was++, is++, nwas--, nis--;
    while (nwas && nis && rule_same(was[nwas - 1], is[nis - 1]))
        nwas--, nis--;
    if (!nwas && !nis)
        return;
    if (nis)
        snprintf(place, sizeof(place), " from %s:%u on", is[0]->file, rule_line(is[0]));
    snprintf(words, sizeof(words), "%s %u rule%s -> %u rule%s%s", key, nwas, nwas == 1 ? "" : "s",
             nis, nis == 1 ? "" : "s", place);
    changes_add(ch, words);
}

static void needs_restart(const char *key, void (*later)(void *arg, const char *key), void *arg) {
    LOG(WARNING, ("'%s' has changed and takes effect at the next start", key));
    if (later)
        later(arg, key);
}

void settings_rules_changed(const struct rules *was, const struct rules *is,
                            struct settings_changes *changes,
                            void (*later)(void *arg, const char *key), void *arg) {
    static const struct rules none;
    was = was ? was : &none;
    is = is ? is : &none;
    rules_changed(changes, "policy.users", was->users, was->nusers, is->users, is->nusers);
    rules_changed(changes, "policy.peers", was->peers, was->npeers, is->peers, is->npeers);
    if (!rules_same_sockets(was, is)) {
        changes_add(changes, "sockets at the next start");
        needs_restart("sockets", later, arg);
    }
}

void settings_reload(struct config *live, const struct config *loaded,
                     struct settings_changes *changes, void (*later)(void *arg, const char *key),
                     void *arg) {
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *s = &settings[i];
        void *to = (char *)live + s->offset;
        const void *from = (const char *)loaded + s->offset;
        if (!memcmp(to, from, s->size))
            continue;
        setting_changed(changes, s, live, loaded);
        if (!s->restart) {
            memcpy(to, from, s->size);
            continue;
        }
        needs_restart(s->key, later, arg);
    }
}
