/* SPDX-License-Identifier: MIT */
/*
 * settings.h - what the daemon's configuration says to fabrics, in their units: plain values, read
 * by every instance, changed by none.
 */
#ifndef RDMAD_FABRIC_SETTINGS_H
#define RDMAD_FABRIC_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

enum window_choice {
    WINDOWS_AUTO,          /* memory windows where the self-test shows that they hold */
    WINDOWS_REGISTRATIONS, /* always a registration of exactly the range */
    WINDOWS_FORCED,        /* memory windows though the self-test found them wanting */
};

struct verbs_settings {
    char device[64]; /* "": the best one */
    unsigned port;   /* 0: any */
    char gid[46];    /* "": by rule; else an index, or an address */
    bool cm;         /* connect by rdma_cm instead of exchanging numbers over the control channel */
    enum window_choice windows;
    bool odp;              /* register without pinning where the device can */
    uint32_t lanes;        /* QPs of one link */
    uint32_t queue_depth;  /* work requests in flight on one QP */
    uint32_t inline_bytes; /* writes up to this travel inside their work request */
    uint32_t signal_every; /* of so many work requests one at least is signalled */
    uint64_t max_message;  /* bytes of one work request */
    uint32_t mtu;          /* bytes; 0: the port's */
    uint16_t pkey_index;   /* the rest as in ibv_modify_qp(3) */
    uint8_t service_level, traffic_class, hop_limit;
    uint8_t timeout, retry_count, rnr_retry, min_rnr_timer;
    uint8_t rd_atomic, dest_rd_atomic;
    uint64_t quiesce_ns;     /* after which an op that was cancelled is taken back by force */
    uint32_t links_per_peer; /* that a peer may have here */
};

/* When links of tcp are encrypted. It suffices that one of the two ends wants it. */
enum encrypt_choice {
    ENCRYPT_AUTO,   /* with peers whose control connection is secured */
    ENCRYPT_OFF,    /* only if the peer wants it */
    ENCRYPT_ALWAYS, /* with every peer */
};

#define FABRIC_LISTEN_MAX 8u

struct fabric_settings {
    char listen_host[256]; /* where data connections are accepted */
    /* What listen_host resolved to at the start, as IPv6 or mapped IPv4 addresses. It is not asked
     * for again, because threads that others wait for must not wait for a nameserver. */
    uint8_t listen_at[FABRIC_LISTEN_MAX][16];
    unsigned listen_count;
    uint16_t data_port;          /* 0: any free port */
    char congestion_control[16]; /* of TCP sockets; "" leaves the system's */
    uint32_t max_inflight;       /* ops in flight on a link, each way */
    uint64_t send_buffer_bytes;  /* with so much unsent a link takes nothing more to be sent */
    uint64_t token_ttl_ns;       /* how long an offer may be taken up */
    uint64_t
        connect_timeout_ns; /* of link_open, and for an accepted connection to show its token */
    uint64_t dead_peer_ns;  /* silence with ops outstanding after which a link is lost */
    uint32_t max_strangers; /* accepted connections that have shown no token yet */
    enum encrypt_choice encrypt;
    uint64_t descriptors; /* data connections leave those from this one on to clients; 0: none */
    struct verbs_settings verbs;
};

#endif
