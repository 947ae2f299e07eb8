/* SPDX-License-Identifier: MIT */
/*
 * cmd_cluster_show.c - cluster show: who this node is, whom it trusts, and, where the CA is, what
 * that has given out.
 */
#include "pki/ca.h"
#include "pki/identity.h"
#include "pki/issued.h"
#include "pki/join_client.h"
#include "pki/token.h"
#include "rdmactl/cluster.h"
#include <openssl/bn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static json_t *describe(X509 *cert) {
    char subject[PKI_SUBJECT_TEXT], name[RDMAD_NAME_MAX + 1], fingerprint[PKI_FINGERPRINT_TEXT];
    json_t *words = json_string(pki_subject_text(cert, subject));
    return json_pack("{s:o, s:s, s:b, s:I, s:I, s:s}", "subject", words ? words : json_null(),
                     "name", pki_name_of(cert, name) ? name : "", "is_ca", pki_is_ca(cert),
                     "not_before", (json_int_t)pki_seconds(X509_get0_notBefore(cert)), "not_after",
                     (json_int_t)pki_seconds(X509_get0_notAfter(cert)), "fingerprint",
                     pki_fingerprint_text(cert, fingerprint));
}

static json_t *trust_of(const struct pki_identity *id) {
    json_t *list = json_array();
    for (int i = 0; i < sk_X509_num(id->trust); i++)
        json_array_append_new(list, describe(sk_X509_value(id->trust, i)));
    return list;
}

static void add_revoked(json_t *list, X509_CRL *crl) {
    STACK_OF(X509_REVOKED) *entries = X509_CRL_get_REVOKED(crl);
    for (int i = 0; i < sk_X509_REVOKED_num(entries); i++) {
        const X509_REVOKED *entry = sk_X509_REVOKED_value(entries, i);
        BIGNUM *n = ASN1_INTEGER_to_BN(X509_REVOKED_get0_serialNumber(entry), NULL);
        char *hex = n ? BN_bn2hex(n) : NULL;
        json_array_append_new(
            list, json_pack("{s:s, s:I}", "serial", hex ? hex : "", "since",
                            (json_int_t)pki_seconds(X509_REVOKED_get0_revocationDate(entry))));
        OPENSSL_free(hex);
        BN_free(n);
    }
}

static json_t *revoked_of(const struct pki_identity *id) {
    json_t *list = json_array();
    for (int i = 0; i < sk_X509_CRL_num(id->crls); i++)
        add_revoked(list, sk_X509_CRL_value(id->crls, i));
    return list;
}

static int add_tokens(json_t *doc, const struct pki_ca *ca, struct pki_error *err) {
    struct pki_token_row *rows;
    unsigned count;
    int rc = pki_token_list(&ca->dir, (int64_t)time(NULL), &rows, &count, err);
    if (rc)
        return rc;
    json_t *list = json_array();
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:i, s:b}", "id", rows[i].id, "expires",
                                              (json_int_t)rows[i].terms.expires, "days",
                                              (int)rows[i].terms.days, "taken", rows[i].taken));
    free(rows);
    json_object_set_new(doc, "tokens", list);
    return 0;
}

/* Those of a name that have not expired; the newest is first. */
static int add_issued_to(json_t *list, const struct pki_ca *ca, const X509_CRL *revoked,
                         const char *name, struct pki_error *err) {
    STACK_OF(X509) *certs = NULL;
    int rc = pki_issued_read(&ca->dir, name, (int64_t)time(NULL), &certs, err);
    for (int i = 0; !rc && i < sk_X509_num(certs); i++) {
        json_t *row = describe(sk_X509_value(certs, i));
        json_object_set_new(row, "revoked",
                            json_boolean(pki_revoked_has(revoked, sk_X509_value(certs, i))));
        json_array_append_new(list, row);
    }
    sk_X509_pop_free(certs, X509_free);
    return rc;
}

static int add_issued(json_t *doc, const struct pki_ca *ca, struct pki_error *err) {
    STACK_OF(X509_CRL) *others = NULL;
    X509_CRL *revoked = NULL;
    struct pki_names names = {0};
    json_t *list = json_array();
    int rc = pki_revoked_read(&ca->dir, ca->cert, &revoked, &others, err);
    if (!rc)
        rc = pki_issued_names(&ca->dir, &names, err);
    for (unsigned i = 0; !rc && i < names.count; i++)
        rc = add_issued_to(list, ca, revoked, names.names[i], err);
    pki_names_free(&names);
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(revoked);
    json_object_set_new(doc, "issued", list);
    return rc;
}

/* What only the node of the CA has. */
static int add_ca(json_t *doc, const struct cluster_place *place, struct pki_error *err) {
    struct pki_ca ca;
    int rc = pki_ca_open(place->dir, &ca, err);
    if (rc)
        return rc;
    json_object_set_new(doc, "ca", describe(ca.cert));
    rc = add_tokens(doc, &ca, err);
    if (!rc)
        rc = add_issued(doc, &ca, err);
    pki_ca_close(&ca);
    return rc;
}

/* ---- text ----------------------------------------------------------------------------------- */

static const char *date_at(const json_t *row, const char *key, char buf[PKI_DATE_TEXT]) {
    return pki_date_text((int64_t)json_integer_value(json_object_get(row, key)), buf);
}

static const char *text_at(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void print_certs(const json_t *rows, const char *title) {
    size_t i;
    json_t *row;
    char date[PKI_DATE_TEXT], start[CELL_MAX];
    if (!json_array_size(rows))
        return;
    struct table *t = table_new(4);
    table_cell(t, false, title);
    table_cell(t, false, "IS");
    table_cell(t, false, "UNTIL");
    table_cell(t, false, "FINGERPRINT");
    json_array_foreach(rows, i, row) {
        const json_t *revoked = json_object_get(row, "revoked");
        const char *name = text_at(row, "name");
        table_cell(t, false, *name ? name : text_at(row, "subject"));
        table_cell(t, false,
                   json_is_true(revoked)                         ? "revoked"
                   : json_is_true(json_object_get(row, "is_ca")) ? "a CA"
                                                                 : "a node");
        table_cell(t, false, date_at(row, "not_after", date));
        snprintf(start, sizeof(start), "%.32s...", text_at(row, "fingerprint"));
        table_cell(t, false, start);
    }
    printf("\n");
    table_print(t);
}

static void print_text(const json_t *doc) {
    const json_t *node = json_object_get(doc, "node"), *tokens = json_object_get(doc, "tokens");
    char date[PKI_DATE_TEXT];
    size_t i;
    json_t *row;
    printf("node         %s, until %s\n", text_at(node, "name"), date_at(node, "not_after", date));
    printf("fingerprint  %s\n", text_at(node, "fingerprint"));
    printf("directory    %s\n", text_at(doc, "dir"));
    if (json_object_get(doc, "ca"))
        printf("CA           here: %s, fingerprint %s\n",
               text_at(json_object_get(doc, "ca"), "subject"),
               text_at(json_object_get(doc, "ca"), "fingerprint"));
    if (*text_at(doc, "ca_address"))
        printf("CA's node    %s\n", text_at(doc, "ca_address"));
    printf("revoked      %zu certificates are on the lists here\n",
           json_array_size(json_object_get(doc, "revoked")));
    print_certs(json_object_get(doc, "trust"), "TRUSTS");
    print_certs(json_object_get(doc, "issued"), "ISSUED TO");
    if (json_array_size(tokens))
        printf("\nTOKENS (each for one node)\n");
    json_array_foreach(tokens, i, row) {
        const bool taken = json_is_true(json_object_get(row, "taken"));
        printf("%s  until %s%s\n", text_at(row, "id"), date_at(row, "expires", date),
               taken ? ", taken: nobody else joins by it" : "");
    }
}

int cmd_cluster_show(const struct command *self, int argc, char **argv) {
    const char *identity = NULL;
    struct cluster_place place;
    struct pki_identity *id = NULL;
    struct pki_error err;
    char address[ADDRESS_MAX];
    struct opt opts[] = {
        {"identity", 0, OPT_TEXT, &identity, 0, 0, "DIR", "the identity directory"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    if ((rc = cluster_find(identity, &place)))
        return rc;
    if ((rc = pki_load(place.dir, &id, &err)))
        return cluster_fail(&place, rc, &err);
    json_t *doc = json_pack("{s:s, s:o, s:o, s:o}", "dir", place.dir, "node", describe(id->cert),
                            "trust", trust_of(id), "revoked", revoked_of(id));
    if (!join_client_address(place.dir, address, sizeof(address), &err))
        json_object_set_new(doc, "ca_address", json_string(address));
    rc = id->is_ca ? add_ca(doc, &place, &err) : 0;
    pki_identity_free(id);
    if (rc) {
        json_decref(doc);
        return cluster_fail(&place, rc, &err);
    }
    if (cli.json)
        return cli_print_json(doc);
    cli_safe_json(doc);
    print_text(doc);
    json_decref(doc);
    return EXIT_GOOD;
}
