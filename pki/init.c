/* SPDX-License-Identifier: MIT */
#include "pki/init.h"
#include "pki/ca.h"
#include "pki/files.h"
#include "pki/own.h"
#include <string.h>

static int make_directories(const struct pki_dir *dir, struct pki_error *err) {
    static const char *const names[] = {PKI_TOKENS, PKI_ISSUED};
    int rc = RDMAD_OK;
    for (unsigned i = 0; !rc && i < 2; i++) {
        struct pki_dir made;
        rc = pki_dir_enter_or_make(dir, names[i], false, &made, err);
        if (!rc)
            pki_dir_close(&made);
    }
    return rc;
}

static int make_node(struct pki_ca *ca, const struct pki_init *init, struct pki_error *err) {
    struct pki_grant grant = {.name = init->name, .days = init->days, .serves_joins = true};
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    int rc = pki_own_key(&ca->dir, &key, err);
    if (rc)
        return rc;
    rc = pki_ca_issue(ca, &grant, key, init->now, &cert, err);
    if (!rc)
        rc = pki_own_write_cert(&ca->dir, PKI_NODE_CERT, cert, ca->cert, err);
    X509_free(cert);
    EVP_PKEY_free(key);
    return rc;
}

int pki_init(const struct pki_init *init, struct pki_error *err) {
    struct pki_ca ca;
    int rc = pki_ca_make(init->path, init->now, &ca, err);
    if (rc)
        return rc;
    rc = make_directories(&ca.dir, err);
    if (!rc)
        rc = pki_own_trust(&ca.dir, ca.cert, err);
    if (!rc)
        rc = pki_ca_write_list(&ca, NULL, init->now, err);
    if (!rc)
        rc = pki_file_write(&ca.dir, PKI_CA_ADDRESS, PKI_PUBLIC, init->address,
                            strlen(init->address), err);
    if (!rc)
        rc = make_node(&ca, init, err);
    pki_ca_close(&ca);
    return rc;
}
