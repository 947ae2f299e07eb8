/* SPDX-License-Identifier: MIT */
/* Whatever replies to a node that joins or renews, nothing is kept that the CA has not signed: no
 * input can be a good reply, for the node's key is fresh. The first byte says which of the two it
 * does. */
#include "pki/ca.h"
#include "pki/files.h"
#include "pki/init.h"
#include "pki/join_client.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[] = "/tmp/fuzz_join_reply.XXXXXX";
static struct join_client joining, renewing;

static int remove_one(const char *path, const struct stat *is, int type, struct FTW *at) {
    (void)is, (void)type, (void)at;
    return remove(path);
}

static void clean(void) {
    join_client_fini(&joining);
    join_client_fini(&renewing);
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void prepare(void) {
    char joined[64], ca[64];
    struct pki_init init = {
        .path = ca, .name = "node", .address = "127.0.0.1:1", .days = 90, .now = time(NULL)};
    struct pki_token token = {0};
    struct pki_identity *id;
    struct join_bytes request;
    struct pki_error err;
    if (joining.key)
        return;
    if (!mkdtemp(root) || atexit(clean))
        abort();
    snprintf(joined, sizeof(joined), "%s/joined", root);
    snprintf(ca, sizeof(ca), "%s/ca", root);
    if (pki_init(&init, &err) || pki_load(ca, &id, &err))
        abort();
    if (join_client_begin(joined, "node", &token, false, &joining, &request, &err))
        abort();
    join_bytes_free(&request);
    if (join_client_begin_renewal(id, false, &renewing, &request, &err))
        abort();
    join_bytes_free(&request);
    pki_identity_free(id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct join_inbox inbox;
    struct pki_error err = {0};
    if (!size)
        return 0;
    struct join_client *client = data[0] & 1 ? &joining : &renewing;
    prepare();
    join_inbox_init(&inbox, JOIN_REPLY_MAX);
    int rc = join_inbox_take(&inbox, data + 1, size - 1, &err);
    if (!rc) {
        rc = join_client_finish(client, inbox.data, inbox.used, "127.0.0.1:1", &err);
        /* An empty list of revoked ones is the one reply that needs no signature. */
        if (!rc && (client == &joining || inbox.used != 16))
            abort();
        if (rc && !err.text[0] && rc != err.code)
            abort();
    }
    if (pki_file_there(&joining.dir, PKI_NODE_CERT))
        abort();
    join_inbox_fini(&inbox);
    return 0;
}
