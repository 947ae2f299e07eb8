/* SPDX-License-Identifier: MIT */
/*
 * renewal_call.c - a socket, TLS, a request, a reply. Every wait is a short one, so that the daemon
 * can end, and all of them end at one deadline.
 */
#include "daemon/peer/connect/renewal_call.h"
#include "daemon/base/clock.h"
#include "daemon/base/upper_fd.h"
#include "pki/ca.h"
#include "pki/context.h"
#include "pki/join_client.h"
#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 100 /* whether it was given up */

struct talk {
    struct renewal_call *call;
    uint64_t deadline_ns;
    int fd;
    SSL *ssl;
};

/* ---- waiting ------------------------------------------------------------------------------- */

static int talk_wait(const struct talk *t, short events, struct pki_error *err) {
    for (;;) {
        struct pollfd p = {.fd = t->fd, .events = events};
        if (__atomic_load_n(&t->call->given_up, __ATOMIC_RELAXED))
            return pki_fail(err, RDMAD_E_SHUTDOWN, "rdmad is stopping");
        if (clock_now_ns() >= t->deadline_ns)
            return pki_fail(err, RDMAD_E_TIMEOUT, "%s does not answer in time", t->call->where);
        int n = poll(&p, 1, LOOK_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot wait for %s", t->call->where);
    }
}

/* What an SSL call waits for, if it does. 0: again. */
static int talk_again(const struct talk *t, int rc, struct pki_error *err) {
    int kind = SSL_get_error(t->ssl, rc);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return talk_wait(t, kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, err);
    return pki_why(t->ssl, ERR_get_error(), err);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static int talk_try(struct talk *t, const struct addrinfo *a, struct pki_error *err) {
    int failed = 0, rc = 0;
    socklen_t size = sizeof(failed);
    t->fd = upper_fd(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (t->fd < 0)
        return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot make a socket");
    if (connect(t->fd, a->ai_addr, a->ai_addrlen) == 0)
        return 0;
    failed = errno;
    if (failed == EINPROGRESS && !(rc = talk_wait(t, POLLOUT, err)) &&
        getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &failed, &size))
        failed = errno;
    if (!rc && !failed)
        return 0;
    if (!rc)
        rc = pki_fail(err, RDMAD_E_UNREACHABLE, "%s cannot be reached: %s", t->call->where,
                      strerror(failed));
    close(t->fd);
    t->fd = -1;
    return rc;
}

static int talk_connect(struct talk *t, struct pki_error *err) {
    int rc = pki_fail(err, RDMAD_E_UNREACHABLE, "%s has no address", t->call->where);
    for (const struct addrinfo *a = t->call->addresses; a && rc; a = a->ai_next)
        rc = talk_try(t, a, err);
    return rc;
}

static int talk_shake(struct talk *t, const struct pki_identity *id, struct pki_error *err) {
    struct pki_peer who;
    SSL_CTX *ctx = NULL;
    int rc = pki_client_context(id, PKI_JOIN, &ctx, err);
    if (rc)
        return rc;
    t->ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    if (!t->ssl || SSL_set_fd(t->ssl, t->fd) != 1)
        return pki_fail(err, RDMAD_E_NOMEM, "out of memory for TLS");
    for (int n; !rc && (n = SSL_connect(t->ssl)) != 1;)
        rc = talk_again(t, n, err);
    if (!rc)
        rc = pki_established(t->ssl, &who, err);
    if (!rc && !who.serves_joins)
        rc = pki_fail(err, RDMAD_E_PERM, "%s is node %s, which has not the cluster's CA",
                      t->call->where, who.name);
    return rc;
}

/* ---- asking -------------------------------------------------------------------------------- */

static int talk_send(const struct talk *t, const struct join_bytes *bytes, struct pki_error *err) {
    int rc = 0;
    for (size_t at = 0; !rc && at < bytes->size;) {
        ERR_clear_error();
        int n = SSL_write(t->ssl, bytes->data + at, (int)(bytes->size - at));
        if (n > 0)
            at += (size_t)n;
        else
            rc = talk_again(t, n, err);
    }
    return rc;
}

static int talk_receive(const struct talk *t, struct join_inbox *inbox, struct pki_error *err) {
    uint8_t bytes[4096];
    int rc = JOIN_MORE;
    while (rc == JOIN_MORE) {
        ERR_clear_error();
        int n = SSL_read(t->ssl, bytes, sizeof(bytes));
        if (n > 0)
            rc = join_inbox_take(inbox, bytes, (size_t)n, err);
        else if ((n = talk_again(t, n, err)))
            rc = n;
    }
    return rc;
}

static int talk_ask(const struct talk *t, const struct pki_identity *id, struct pki_error *err) {
    struct join_client client;
    struct join_bytes request = {0};
    struct join_inbox inbox;
    int rc = join_client_begin_renewal(id, t->call->list_only, &client, &request, err);
    if (rc)
        return rc;
    join_inbox_init(&inbox, JOIN_REPLY_MAX);
    rc = talk_send(t, &request, err);
    if (!rc)
        rc = talk_receive(t, &inbox, err);
    if (!rc)
        rc = join_client_finish(&client, inbox.data, inbox.used, NULL, err);
    join_inbox_fini(&inbox);
    join_bytes_free(&request);
    join_client_fini(&client);
    return rc;
}

static int talk(struct renewal_call *c, const struct pki_identity *id, struct pki_error *err) {
    struct talk t = {
        .call = c, .deadline_ns = clock_after(clock_now_ns(), RENEWAL_CALL_NS), .fd = -1};
    int rc = talk_connect(&t, err);
    if (!rc)
        rc = talk_shake(&t, id, err);
    if (!rc)
        rc = talk_ask(&t, id, err);
    SSL_free(t.ssl);
    if (t.fd >= 0)
        close(t.fd);
    return rc;
}

/* Where the CA is there is nobody to ask. */
static int sign_own(const char *dir, struct pki_error *err) {
    struct pki_ca ca;
    int rc = pki_ca_open(dir, &ca, err);
    if (rc == PKI_NOT_THERE)
        return pki_fail(err, RDMAD_E_CONFIG, "%s has no CA any more", dir);
    if (!rc) {
        rc = pki_ca_renew_own(&ca, (int64_t)time(NULL), err);
        pki_ca_close(&ca);
    }
    return rc;
}

int renewal_call(struct renewal_call *c, struct error *err) {
    struct pki_identity *id = NULL;
    struct pki_error why;
    int rc;
    if (!c->addresses) {
        rc = sign_own(c->dir, &why);
    } else {
        rc = pki_load(c->dir, &id, &why); /* a thread of its own has an identity of its own */
        if (rc == PKI_NOT_THERE)
            rc = pki_fail(&why, RDMAD_E_CONFIG, "the identity in %s is gone", c->dir);
        if (!rc)
            rc = talk(c, id, &why);
        pki_identity_free(id);
    }
    return rc ? error_set(err, rc, "%s", why.text) : 0;
}
