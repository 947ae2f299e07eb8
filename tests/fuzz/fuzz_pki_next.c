/* SPDX-License-Identifier: MIT */
/* What a peer shows as its next certificate is refused with a sentence, or all that is in it can be
 * judged: here as the next one of the last in it, by who trusts the second alone. */
#include "pki/key.h"
#include "pki/next.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_words(int rc, const struct pki_error *err) {
    must(!rc || (err->code == rc && err->text[0]));
}

static void judge(STACK_OF(X509) * certs, bool is_server) {
    struct pki_identity id = {.trust = sk_X509_new_null()};
    struct pki_error err = {0};
    X509 *last = sk_X509_value(certs, sk_X509_num(certs) - 1), *second = sk_X509_value(certs, 1);
    int64_t until;
    must(id.trust && (!second || sk_X509_push(id.trust, second)));
    int rc = pki_next_check(&id, last, is_server, certs, &until, &err);
    expect_words(rc, &err);
    must(rc || until <= pki_seconds(X509_get0_notAfter(sk_X509_value(certs, 0))));
    sk_X509_free(id.trust);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pki_error err = {0};
    STACK_OF(X509) *certs = NULL;
    int rc = pki_next_parse(data, size, &certs, &err);
    expect_words(rc, &err);
    if (rc)
        return 0;
    must(sk_X509_num(certs) <= PKI_NEXT_CHAIN_MAX);
    for (int i = 0; i < sk_X509_num(certs); i++)
        must(!pki_key_check(X509_get0_pubkey(sk_X509_value(certs, i)), "a key", &err));
    judge(certs, true);
    judge(certs, false);
    sk_X509_pop_free(certs, X509_free);
    return 0;
}
