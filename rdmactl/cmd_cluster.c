/* SPDX-License-Identifier: MIT */
/*
 * cmd_cluster.c - cluster init, token and revoke: what is done where the CA is.
 */
#include "common/uri.h"
#include "pki/ca.h"
#include "pki/files.h"
#include "pki/init.h"
#include "pki/join_client.h"
#include "pki/token.h"
#include "rdmactl/cluster.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PORT_DEFAULT 7471u
#define TTL_DEFAULT_MS (UINT64_C(24) * 3600 * 1000)
#define TTL_MAX_MS (UINT64_C(1000) * PKI_TOKEN_TTL_MAX_S)

/* What `init` and `token` are asked for. */
struct invitation {
    struct cluster_place place;
    const char *address; /* HOST:PORT */
    bool guessed;        /* nobody has given it */
    uint64_t ttl_ms, days;
    char buf[ADDRESS_MAX];
};

static int check_address(const char *address) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    const char *wrong = rdmad_hostport_parse(address, host, &port);
    if (!wrong && port)
        return ARGS_RUN;
    return cli_usage_error("--address \"%s\": %s", address,
                           wrong ? wrong : "nobody can be reached at port 0");
}

/* A new token of the open CA; prints the join line last, or puts it into doc, which it takes over.
 */
static int invite(struct pki_ca *ca, const struct invitation *in, json_t *doc) {
    struct pki_error err;
    struct pki_token token;
    int64_t now = (int64_t)time(NULL);
    struct pki_token_terms terms = {.expires = now + (int64_t)(in->ttl_ms / 1000),
                                    .days = (unsigned)in->days};
    char text[PKI_TOKEN_TEXT], date[PKI_DATE_TEXT];
    int rc = pki_token_make(&ca->dir, ca->cert, now, &terms, &token, &err);
    if (rc) {
        json_decref(doc);
        return cluster_fail(&in->place, rc, &err);
    }
    pki_token_print(&token, text);
    if (doc) {
        json_object_set_new(doc, "address", json_string(in->address));
        json_object_set_new(doc, "token", json_string(text));
        json_object_set_new(doc, "expires", json_integer((json_int_t)terms.expires));
        return cli_print_json(doc);
    }
    printf("One node can join until %s, by running there:\n", pki_date_text(terms.expires, date));
    printf("rdmactl cluster join %s %s\n", in->address, text);
    return EXIT_GOOD;
}

/* ---- init ----------------------------------------------------------------------------------- */

/* Where joining nodes find this one, if nobody says: where the daemon listens, or would. */
static const char *guess_address(struct invitation *in, const char *name) {
    char host[RDMAD_HOST_MAX + 1] = "";
    (void)gethostname(host, sizeof(host) - 1);
    if (in->place.address[0])
        return in->place.address;
    return rdmad_hostport_print(rdmad_name_ok(host) ? host : name,
                                (uint16_t)(in->place.port ? in->place.port : PORT_DEFAULT), in->buf,
                                sizeof(in->buf));
}

static int init(struct invitation *in, const char *name) {
    struct pki_error err;
    struct pki_ca ca;
    char why[256], fingerprint[PKI_FINGERPRINT_TEXT];
    struct pki_init made = {.path = in->place.dir,
                            .name = name,
                            .address = in->address,
                            .days = (unsigned)in->days,
                            .now = (int64_t)time(NULL)};
    int rc = pki_init(&made, &err);
    if (rc)
        return cluster_fail(&in->place, rc, &err);
    const char *reloaded = cluster_reload(&in->place, why, sizeof(why));
    rc = pki_ca_open(in->place.dir, &ca, &err);
    if (rc)
        return cluster_fail(&in->place, rc, &err);
    pki_fingerprint_text(ca.cert, fingerprint);
    json_t *doc = NULL;
    if (cli.json)
        doc = json_pack("{s:s, s:s, s:s}", "name", name, "dir", in->place.dir, "ca_fingerprint",
                        fingerprint);
    else
        printf("Node %s has an identity and the cluster's CA in %s.\n"
               "CA fingerprint (SHA-256): %s\n%s",
               name, in->place.dir, fingerprint,
               in->place.daemon ? "" : "Start rdmad here, or restart it, with that identity.\n");
    cluster_report_reload(reloaded, doc);
    cluster_warn_read_only(&in->place);
    cluster_warn_loopback(&in->place, in->guessed ? NULL : in->address);
    rc = invite(&ca, in, doc);
    pki_ca_close(&ca);
    return rc;
}

int cmd_cluster_init(const struct command *self, int argc, char **argv) {
    const char *name = NULL, *identity = NULL;
    char own[RDMAD_NAME_MAX + 1];
    struct invitation in = {.ttl_ms = TTL_DEFAULT_MS, .days = PKI_NODE_DAYS};
    struct opt opts[] = {
        {"name", 0, OPT_TEXT, &name, 0, 0, "NAME",
         "of this node (what its daemon or host is called)"},
        {"address", 0, OPT_TEXT, &in.address, 0, 0, "HOST:PORT",
         "where nodes that join reach this node's daemon"},
        {"ttl", 0, OPT_TIME, &in.ttl_ms, 1000, TTL_MAX_MS, "TIME",
         "how long the join line is good (24h)"},
        {"days", 0, OPT_COUNT, &in.days, 1, PKI_NODE_DAYS_MAX, "DAYS",
         "how long certificates are good before they are renewed (90)"},
        {"identity", 0, OPT_TEXT, &identity, 0, 0, "DIR", "the identity directory"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN || (in.address && (rc = check_address(in.address)) != ARGS_RUN))
        return rc;
    if ((rc = cluster_find(identity, &in.place)) ||
        (rc = cluster_own_name(&in.place, name, own)) != ARGS_RUN)
        return rc;
    in.guessed = !in.address;
    if (in.guessed)
        in.address = guess_address(&in, own);
    return init(&in, own);
}

/* ---- token ---------------------------------------------------------------------------------- */

/* The CA of place, or reports. */
static int open_ca(const struct cluster_place *place, struct pki_ca *out) {
    struct pki_error err;
    int rc = pki_ca_open(place->dir, out, &err);
    if (!rc)
        return EXIT_GOOD;
    if (rc == PKI_NOT_THERE)
        return cli_fail("RDMAD_E_CONFIG",
                        "%s has no CA: do this on the node where rdmactl cluster init ran, or name "
                        "that directory by --identity",
                        place->dir);
    return cluster_fail(place, rc, &err);
}

int cmd_cluster_token(const struct command *self, int argc, char **argv) {
    const char *identity = NULL;
    struct pki_ca ca;
    struct pki_error err;
    struct invitation in = {.ttl_ms = TTL_DEFAULT_MS, .days = PKI_NODE_DAYS};
    struct opt opts[] = {
        {"ttl", 0, OPT_TIME, &in.ttl_ms, 1000, TTL_MAX_MS, "TIME",
         "how long the join line is good (24h)"},
        {"days", 0, OPT_COUNT, &in.days, 1, PKI_NODE_DAYS_MAX, "DAYS",
         "how long the node's certificates are good before they are renewed (90)"},
        {"address", 0, OPT_TEXT, &in.address, 0, 0, "HOST:PORT",
         "where nodes that join reach this node's daemon (as init said)"},
        {"identity", 0, OPT_TEXT, &identity, 0, 0, "DIR", "the identity directory"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN || (in.address && (rc = check_address(in.address)) != ARGS_RUN))
        return rc;
    if ((rc = cluster_find(identity, &in.place)) || (rc = open_ca(&in.place, &ca)))
        return rc;
    if (!in.address) {
        rc = join_client_address(in.place.dir, in.buf, sizeof(in.buf), &err);
        if (rc) {
            pki_ca_close(&ca);
            return rc == PKI_NOT_THERE ? cli_usage_error("give --address HOST:PORT: %s/ca.address, "
                                                         "which has it, is missing",
                                                         in.place.dir)
                                       : cluster_fail(&in.place, rc, &err);
        }
        in.address = in.buf;
    }
    rc = invite(&ca, &in, cli.json ? json_object() : NULL);
    pki_ca_close(&ca);
    return rc;
}

/* ---- revoke --------------------------------------------------------------------------------- */

int cmd_cluster_revoke(const struct command *self, int argc, char **argv) {
    const char *identity = NULL, *name = NULL;
    struct cluster_place place;
    struct pki_ca ca;
    struct pki_error err;
    unsigned count = 0;
    char why[256];
    struct opt opts[] = {
        {"identity", 0, OPT_TEXT, &identity, 0, 0, "DIR", "the identity directory"},
        {0},
    };
    struct positionals pos = {.names = "NAME", .min = 1, .max = 1, .values = &name};
    int rc = args_parse(self, opts, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    if ((rc = cluster_find(identity, &place)) || (rc = open_ca(&place, &ca)))
        return rc;
    rc = pki_ca_revoke(&ca, name, (int64_t)time(NULL), &count, &err);
    pki_ca_close(&ca);
    if (rc)
        return cluster_fail(&place, rc, &err);
    json_t *doc = cli.json ? json_pack("{s:s, s:i}", "name", name, "revoked", (int)count) : NULL;
    cluster_report_reload(cluster_reload(&place, why, sizeof(why)), doc);
    if (doc)
        return cli_print_json(doc);
    printf("%s is revoked (%u certificate%s)\n", name, count, count == 1 ? "" : "s");
    return EXIT_GOOD;
}
