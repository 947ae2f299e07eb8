/* SPDX-License-Identifier: MIT */
/*
 * cmd_cluster_join.c - cluster join: one TLS connection to the node of the CA, one request, one
 * reply.
 *
 * Nothing is said before the other side has proven that it is the CA of the token; nothing is
 * written before the handshake is done.
 */
#include "common/errors.h"
#include "common/uri.h"
#include "pki/context.h"
#include "pki/join_client.h"
#include "pki/token.h"
#include "rdmactl/cluster.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct joining {
    struct cluster_place place;
    const char *address;
    char host[RDMAD_HOST_MAX + 1], service[8];
    char name[RDMAD_NAME_MAX + 1];
    struct pki_token token;
    bool replace;
    double deadline_s;
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
};

/* ---- waiting -------------------------------------------------------------------------------- */

/* Waits for the socket until the deadline; false: it is over. */
static bool wait_for(struct joining *j, short events) {
    for (;;) {
        double left = j->deadline_s - cli_now_s();
        if (left <= 0)
            return false;
        int n = poll(&(struct pollfd){.fd = j->fd, .events = events}, 1, (int)(left * 1e3) + 1);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

static int too_late(const struct joining *j) {
    return cli_fail(
        "RDMAD_E_TIMEOUT",
        "%s does not answer in time (--timeout SECONDS waits longer); the token is good "
        "as long as nobody has used it",
        j->address);
}

/* What an SSL call waits for, if it does. RUN: again. */
static int ssl_again(struct joining *j, int n) {
    struct pki_error err;
    int kind = SSL_get_error(j->ssl, n);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return wait_for(j, kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT) ? ARGS_RUN : too_late(j);
    pki_why(j->ssl, ERR_get_error(), &err);
    return cli_fail(rdmad_error_name(err.code), "%s: %s", j->address, err.text);
}

/* ---- connecting ----------------------------------------------------------------------------- */

static int try_address(struct joining *j, const struct addrinfo *a) {
    int failed = 0;
    socklen_t size = sizeof(failed);
    j->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (j->fd < 0)
        return errno;
    if (!connect(j->fd, a->ai_addr, a->ai_addrlen))
        return 0;
    failed = errno;
    if (failed == EINPROGRESS &&
        (!wait_for(j, POLLOUT) || getsockopt(j->fd, SOL_SOCKET, SO_ERROR, &failed, &size)))
        failed = ETIMEDOUT;
    if (failed) {
        close(j->fd);
        j->fd = -1;
    }
    return failed;
}

/* Each has an equal part of the time that is left, for one may swallow all that is sent to it. */
static int try_each(struct joining *j, const struct addrinfo *list) {
    const double until_s = j->deadline_s;
    unsigned left = 0;
    int failed = ETIMEDOUT;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        left++;
    for (const struct addrinfo *a = list; a && failed; a = a->ai_next, left--) {
        const double now_s = cli_now_s();
        j->deadline_s = now_s + (until_s - now_s) / left;
        failed = try_address(j, a);
    }
    j->deadline_s = until_s;
    return failed;
}

static int connect_tcp(struct joining *j) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list;
    int failed = getaddrinfo(j->host, j->service, &hints, &list);
    if (failed)
        return cli_fail("RDMAD_E_UNREACHABLE", "%s: %s", j->address, gai_strerror(failed));
    failed = try_each(j, list);
    freeaddrinfo(list);
    if (!failed)
        return EXIT_GOOD;
    return cli_fail("RDMAD_E_UNREACHABLE",
                    "%s: %s; the daemon of the node where rdmactl cluster init ran must run and "
                    "listen there (rdmad --listen)",
                    j->address, strerror(failed));
}

static int shake_hands(struct joining *j) {
    struct pki_error err;
    struct pki_peer peer;
    int rc = pki_stranger_context(j->token.fingerprint, &j->ctx, &err);
    if (rc)
        return cluster_fail(&j->place, rc, &err);
    j->ssl = SSL_new(j->ctx);
    if (!j->ssl || SSL_set_fd(j->ssl, j->fd) != 1)
        return cli_fail("RDMAD_E_NOMEM", "out of memory for TLS");
    for (int n, code; (n = SSL_connect(j->ssl)) != 1;)
        if ((code = ssl_again(j, n)) != ARGS_RUN)
            return code;
    rc = pki_established(j->ssl, &peer, &err);
    return rc ? cluster_fail(&j->place, rc, &err) : EXIT_GOOD;
}

/* ---- asking --------------------------------------------------------------------------------- */

static int send_all(struct joining *j, const struct join_bytes *bytes) {
    for (size_t at = 0; at < bytes->size;) {
        int n = SSL_write(j->ssl, bytes->data + at, (int)(bytes->size - at));
        if (n > 0)
            at += (size_t)n;
        else if ((n = ssl_again(j, n)) != ARGS_RUN)
            return n;
    }
    return EXIT_GOOD;
}

static int receive(struct joining *j, struct join_inbox *inbox) {
    uint8_t buf[4096];
    struct pki_error err;
    for (int rc = JOIN_MORE; rc == JOIN_MORE;) {
        ERR_clear_error();
        int n = SSL_read(j->ssl, buf, sizeof(buf));
        if (n <= 0) {
            if ((n = ssl_again(j, n)) != ARGS_RUN)
                return n;
            continue;
        }
        rc = join_inbox_take(inbox, buf, (size_t)n, &err);
        if (rc && rc != JOIN_MORE)
            return cluster_fail(&j->place, rc, &err);
    }
    return EXIT_GOOD;
}

/* Request and reply, and what the reply has is kept. */
static int joining_ask(struct joining *j) {
    struct join_client client;
    struct join_bytes request = {0};
    struct join_inbox inbox;
    struct pki_error err;
    int rc =
        join_client_begin(j->place.dir, j->name, &j->token, j->replace, &client, &request, &err);
    if (rc)
        return cluster_fail(&j->place, rc, &err);
    join_inbox_init(&inbox, JOIN_REPLY_MAX);
    int code = send_all(j, &request);
    if (!code)
        code = receive(j, &inbox);
    if (!code) {
        rc = join_client_finish(&client, inbox.data, inbox.used, j->address, &err);
        if (rc)
            code = cluster_fail(&j->place, rc, &err);
    }
    join_inbox_fini(&inbox);
    join_bytes_free(&request);
    join_client_fini(&client);
    return code;
}

static int join(struct joining *j) {
    int code = connect_tcp(j);
    if (!code)
        code = shake_hands(j);
    if (!code)
        code = joining_ask(j);
    if (j->ssl)
        (void)SSL_shutdown(j->ssl);
    SSL_free(j->ssl);
    SSL_CTX_free(j->ctx);
    if (j->fd >= 0)
        close(j->fd);
    return code;
}

/* ---- the token ------------------------------------------------------------------------------ */

#define TOKEN_INPUT_MAX 4096u /* bytes, for the whole of what rdmactl cluster token prints */

/* The last word, so that all of what rdmactl cluster token prints serves as well. */
static bool token_in(char *text, struct pki_token *out) {
    const char *last = "";
    char *rest = NULL;
    for (const char *word = strtok_r(text, " \t\r\n", &rest); word;
         word = strtok_r(NULL, " \t\r\n", &rest))
        last = word;
    return pki_token_parse(last, out);
}

/* Until its end, or of a terminal one line. False: errno, or 0 if it is too long. */
static bool read_text(int fd, char text[TOKEN_INPUT_MAX + 1]) {
    size_t have = 0;
    bool line = isatty(fd);
    for (;;) {
        ssize_t n = read(fd, text + have, TOKEN_INPUT_MAX - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        have += (size_t)n;
        text[have] = '\0';
        errno = 0;
        if (n == 0 || (line && strchr(text, '\n')))
            return true;
        if (have == TOKEN_INPUT_MAX)
            return false;
    }
}

/* ARGS_RUN, or the exit code. file "-": standard input. */
static int read_token(struct joining *j, const char *file) {
    char text[TOKEN_INPUT_MAX + 1];
    bool input = !strcmp(file, "-"); /* a file of that name is ./- */
    int fd = input ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && read_text(fd, text);
    int failed = errno;
    if (fd >= 0 && !input)
        close(fd);
    if (!good)
        return cli_fail(failed ? "RDMAD_E_SYSTEM" : "RDMAD_E_LENGTH",
                        "no token is read from %s: %s", input ? "standard input" : file,
                        failed ? strerror(failed) : "it is too long for one");
    good = token_in(text, &j->token);
    OPENSSL_cleanse(text, sizeof(text));
    if (!good)
        return cli_usage_error("there is no whole token at the end of %s; rdmactl cluster token, "
                               "where the CA is, prints a line with one",
                               input ? "standard input" : file);
    return ARGS_RUN;
}

/* Other users read what a process was called with, while it waits: it is there no longer than until
 * here. */
static int take_token(struct joining *j, char *word) {
    bool good = pki_token_parse(word, &j->token);
    OPENSSL_cleanse(word, strlen(word));
    if (!good)
        return cli_usage_error("that is no whole token; rdmactl cluster token, where the CA is, "
                               "prints the line with one");
    return ARGS_RUN;
}

static int find_token(struct joining *j, char *word, const char *file) {
    if (!word == !file)
        return cli_usage_error(word ? "a token is given twice, as TOKEN and by --token-file"
                                    : "TOKEN is missing: as a word, - to read it from standard "
                                      "input, or by --token-file FILE");
    if (file || !strcmp(word, "-"))
        return read_token(j, file ? file : word);
    return take_token(j, word);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int report(const struct joining *j) {
    char why[256], date[PKI_DATE_TEXT];
    struct pki_identity *id;
    struct pki_error err;
    int rc = pki_load(j->place.dir, &id, &err);
    if (rc)
        return cluster_fail(&j->place, rc, &err);
    const char *reloaded = cluster_reload(&j->place, why, sizeof(why));
    json_t *doc = NULL;
    if (cli.json)
        doc = json_pack("{s:s, s:s, s:s, s:I}", "name", id->name, "dir", j->place.dir,
                        "fingerprint", id->fingerprint, "not_after", (json_int_t)id->not_after);
    else
        printf("Node %s has joined; its identity is in %s, good until %s and renewed before "
               "that.\n%s",
               id->name, j->place.dir, pki_date_text(id->not_after, date),
               j->place.daemon ? "" : "Start rdmad here, or restart it, with that identity.\n");
    cluster_report_reload(reloaded, doc);
    cluster_warn_read_only(&j->place);
    pki_identity_free(id);
    return doc ? cli_print_json(doc) : EXIT_GOOD;
}

int cmd_cluster_join(const struct command *self, int argc, char **argv) {
    const char *words[2] = {NULL, NULL}, *name = NULL, *identity = NULL, *token_file = NULL;
    struct joining j = {.fd = -1};
    uint16_t port;
    struct opt opts[] = {
        {"token-file", 0, OPT_PATH, &token_file, 0, 0, "FILE",
         "has the token, instead of TOKEN (TOKEN -: standard input)"},
        {"name", 0, OPT_TEXT, &name, 0, 0, "NAME",
         "of this node (what its daemon or host is called)"},
        {"replace", 0, OPT_FLAG, &j.replace, 0, 0, NULL,
         "join anew, though there is an identity (its key stays)"},
        {"identity", 0, OPT_TEXT, &identity, 0, 0, "DIR", "the identity directory"},
        {0},
    };
    struct positionals pos = {.names = "HOST:PORT", .min = 1, .max = 2, .values = words};
    int rc = args_parse(self, opts, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    j.address = words[0];
    const char *wrong = rdmad_hostport_parse(j.address, j.host, &port);
    if (wrong || !port)
        return cli_usage_error("\"%s\": %s", j.address, wrong ? wrong : "port 0 is nobody's");
    if ((rc = find_token(&j, (char *)words[1], token_file)) != ARGS_RUN)
        return rc;
    snprintf(j.service, sizeof(j.service), "%u", (unsigned)port);
    if ((rc = cluster_find(identity, &j.place)) ||
        (rc = cluster_own_name(&j.place, name, j.name)) != ARGS_RUN)
        return rc;
    (void)signal(SIGPIPE, SIG_IGN);
    j.deadline_s = cli_now_s() + (double)patience_ms(PATIENCE_ACT_MS) / 1e3;
    rc = join(&j);
    return rc ? rc : report(&j);
}
