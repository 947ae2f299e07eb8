/* SPDX-License-Identifier: MIT */
/*
 * The identity directory: what others could put there is refused in words, and nothing that lies
 * there can hold up who reads it.
 */
#include "pki/files.h"
#include "tests/unit/pki_rig.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[RIG_PATH];

static void path_to(const char *file, char out[2 * RIG_PATH]) {
    snprintf(out, 2 * RIG_PATH, "%s/%s", dir, file);
}

/* A whole identity, of which one thing is spoiled by each case. */
static void fresh(void) {
    rig_init(dir, "node");
}

static int load(struct pki_error *err) {
    struct pki_identity *id = NULL;
    *err = (struct pki_error){0};
    int rc = pki_load(dir, &id, err);
    pki_identity_free(id);
    return rc;
}

static void expect_load(int code, const char *words) {
    struct pki_error err;
    int rc = load(&err);
    cr_assert_eq(rc, code, "%d: %s", rc, err.text);
    if (words)
        cr_assert(strstr(err.text, words), "\"%s\" is not in: %s", words, err.text);
}

static void set_mode(const char *file, unsigned mode) {
    char path[2 * RIG_PATH];
    path_to(file, path);
    cr_assert_eq(chmod(path, mode), 0);
}

static void unlink_file(const char *file) {
    char path[2 * RIG_PATH];
    path_to(file, path);
    cr_assert_eq(unlink(path), 0);
}

Test(pki_files, a_whole_identity_is_loaded) {
    struct pki_error err = {0};
    struct pki_identity *id;
    fresh();
    cr_assert_eq(pki_load(dir, &id, &err), 0, "%s", err.text);
    cr_assert_str_eq(id->name, "node");
    cr_assert(id->is_ca);
    cr_assert(id->not_after > rig_now() + 89 * 86400 && id->not_after <= rig_now() + 90 * 86400);
    cr_assert(pki_renewal_time(id) > rig_now() + 59 * 86400 &&
              pki_renewal_time(id) < rig_now() + 61 * 86400);
    cr_assert_eq(sk_X509_num(id->trust), 1);
    cr_assert_eq(strlen(id->fingerprint), 64);
    pki_identity_free(id);
}

Test(pki_files, no_identity_is_no_error) {
    rig_path(dir, "nothing");
    expect_load(PKI_NOT_THERE, NULL);
    cr_assert_eq(mkdir(dir, 0700), 0);
    expect_load(PKI_NOT_THERE, NULL);
}

Test(pki_files, keys_are_nobody_elses) {
    static const unsigned bad[] = {0640, 0604, 0660, 0606};
    fresh();
    for (unsigned i = 0; i < 4; i++) {
        set_mode("node.key", bad[i]);
        expect_load(RDMAD_E_PERM, "chmod it to 0600");
    }
    set_mode("node.key", 0400);
    expect_load(0, NULL);
}

Test(pki_files, nobody_else_writes_what_is_trusted) {
    fresh();
    set_mode("node.crt", 0664);
    expect_load(RDMAD_E_PERM, "chmod it to 0644");
    set_mode("node.crt", 0644);
    set_mode("revoked.crl", 0666);
    expect_load(RDMAD_E_PERM, "revoked.crl");
    set_mode("revoked.crl", 0600);
    set_mode("trust", 0777);
    expect_load(RDMAD_E_PERM, "others may write to it; chmod it to 0700");
    set_mode("trust", 0755);
    cr_assert_eq(chmod(dir, 0720), 0);
    expect_load(RDMAD_E_PERM, "others may write to it");
    cr_assert_eq(chmod(dir, 0755), 0);
    expect_load(0, NULL);
}

/* Root's tests only: another user's files are refused, the directory's owner's are not. */
Test(pki_files, files_of_another_user_are_refused) {
    char path[2 * RIG_PATH];
    if (geteuid() != 0)
        return;
    fresh();
    path_to("node.key", path);
    cr_assert_eq(chown(path, 12345, 12345), 0);
    expect_load(RDMAD_E_PERM, "belongs to uid 12345, not to uid 0 or root");
    cr_assert_eq(chown(dir, 12345, 12345), 0);
    expect_load(0, NULL); /* root works for whoever owns the directory */
}

Test(pki_files, links_fifos_and_directories_are_not_read) {
    char path[2 * RIG_PATH], other[2 * RIG_PATH];
    fresh();
    path_to("node.crt", path);
    path_to("elsewhere", other);
    cr_assert_eq(rename(path, other), 0);
    cr_assert_eq(symlink("elsewhere", path), 0);
    expect_load(RDMAD_E_PERM, "is a link; it must be the file itself");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_load(RDMAD_E_PERM, "is no regular file"); /* and nobody waits for a writer */
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    expect_load(RDMAD_E_PERM, "is no regular file");
    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(rename(other, path), 0);
    path_to("trust", path);
    path_to("trusted", other);
    cr_assert_eq(rename(path, other), 0);
    cr_assert_eq(symlink("trusted", path), 0);
    expect_load(RDMAD_E_PERM, "is no directory, or a link to one");
}

Test(pki_files, a_huge_file_is_refused) {
    char path[2 * RIG_PATH];
    fresh();
    path_to("trust/huge.crt", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert_eq(ftruncate(fd, 1L << 40), 0);
    close(fd);
    expect_load(RDMAD_E_LENGTH, "at most 65536 are read");
}

Test(pki_files, too_many_trusted_files_are_refused) {
    fresh();
    for (unsigned i = 0; i < 70; i++) {
        char file[32];
        snprintf(file, sizeof(file), "trust/%u.crt", i);
        rig_copy(dir, "ca.crt", dir, file);
    }
    expect_load(RDMAD_E_LIMIT, "more than 64 entries");
}

Test(pki_files, what_is_damaged_is_named) {
    fresh();
    rig_write(dir, "node.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
              0600);
    expect_load(RDMAD_E_CONFIG, "node.key has no private key");
    rig_init(dir, "node");
    rig_write(dir, "trust/x.crt", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
              0644);
    expect_load(RDMAD_E_CONFIG, "x.crt has a damaged certificate");
    rig_write(dir, "trust/x.crt", "nothing at all\n", 0644);
    expect_load(RDMAD_E_CONFIG, "x.crt has no certificate in PEM");
    rig_init(dir, "node");
    rig_write(dir, "revoked.crl", "", 0644);
    expect_load(RDMAD_E_CONFIG, "revoked.crl has no list");
    rig_init(dir, "node");
    unlink_file("node.key");
    expect_load(RDMAD_E_CONFIG, "node.key is missing");
}

/* The rest of it is as it should be. */
Test(pki_files, a_certificate_whose_key_cannot_be_decoded_is_refused) {
    BIO *bio = BIO_new(BIO_s_mem());
    unsigned char *der = NULL;
    fresh();
    X509 *leaf = rig_leaf(dir);
    int size = i2d_X509(leaf, &der);
    rig_spoil_key(der, (size_t)size);
    cr_assert(PEM_write_bio(bio, PEM_STRING_X509, "", der, size) > 0);
    cr_assert_eq(BIO_write(bio, "", 1), 1);
    char *pem;
    BIO_get_mem_data(bio, &pem);
    rig_write(dir, "trust/x.crt", pem, 0644);
    expect_load(RDMAD_E_UNSUPPORTED, "the key of CN=node in");
    expect_load(RDMAD_E_UNSUPPORTED, "cannot be read");
    OPENSSL_free(der);
    X509_free(leaf);
    BIO_free(bio);
}

Test(pki_files, the_key_must_be_the_certificates) {
    fresh();
    rig_copy(dir, "ca.key", dir, "node.key");
    set_mode("node.key", 0600);
    expect_load(RDMAD_E_CONFIG, "is not the key of node.crt");
}

/* An encrypted key must not make the daemon ask its terminal. */
Test(pki_files, a_key_with_a_passphrase_is_refused) {
    static const char key[] = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                              "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiZuZc8rkb5fAICCAAw\n"
                              "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEIRmSuGVQ9DbGgOQdb7ZHJ8EgZCg\n"
                              "-----END ENCRYPTED PRIVATE KEY-----\n";
    fresh();
    rig_write(dir, "node.key", key, 0600);
    expect_load(RDMAD_E_CONFIG, "without a passphrase");
}

Test(pki_files, trust_must_not_be_empty) {
    char path[2 * RIG_PATH];
    fresh();
    path_to("trust", path);
    struct pki_error err;
    struct pki_dir at;
    struct pki_names names;
    cr_assert_eq(pki_dir_open(path, &at, &err), 0);
    cr_assert_eq(pki_names_read(&at, ".crt", 64, &names, &err), 0);
    for (unsigned i = 0; i < names.count; i++)
        cr_assert_eq(pki_file_remove(&at, names.names[i], &err), 0);
    pki_names_free(&names);
    pki_dir_close(&at);
    expect_load(RDMAD_E_CONFIG, "trust/*.crt is missing");
}

Test(pki_files, a_file_is_written_as_a_whole_with_its_mode) {
    struct pki_error err;
    struct pki_dir at;
    struct stat is;
    char *text;
    size_t size;
    rig_path(dir, "files");
    cr_assert_eq(pki_dir_make(dir, &at, &err), 0, "%s", err.text);
    mode_t before = umask(0077);
    cr_assert_eq(pki_file_write(&at, "public", PKI_PUBLIC, "one", 3, &err), 0, "%s", err.text);
    umask(0);
    cr_assert_eq(pki_file_write(&at, "secret", PKI_SECRET, "two", 3, &err), 0, "%s", err.text);
    umask(before);
    cr_assert_eq(fstatat(at.fd, "public", &is, 0), 0);
    cr_assert_eq(is.st_mode & 07777, 0644);
    cr_assert_eq(fstatat(at.fd, "secret", &is, 0), 0);
    cr_assert_eq(is.st_mode & 07777, 0600);
    cr_assert_eq(pki_file_create(&at, "secret", PKI_SECRET, "three", 5, &err), RDMAD_E_EXISTS);
    cr_assert_eq(pki_file_read(&at, "secret", PKI_SECRET, &text, &size, &err), 0);
    cr_assert_str_eq(text, "two");
    pki_wipe(text, size);
    struct pki_names names; /* nothing else is left */
    cr_assert_eq(pki_names_read(&at, "", 64, &names, &err), 0);
    cr_assert_eq(names.count, 2);
    pki_names_free(&names);
    cr_assert_eq(pki_file_remove(&at, "secret", &err), 0);
    cr_assert_eq(pki_file_remove(&at, "secret", &err), PKI_NOT_THERE);
    pki_dir_close(&at);
}

/* What root writes belongs to the directory's owner: a daemon that is not root must read it. */
Test(pki_files, root_writes_for_the_owner) {
    struct pki_error err;
    struct pki_dir at, in;
    struct stat is;
    if (geteuid() != 0)
        return;
    rig_path(dir, "owned");
    cr_assert_eq(mkdir(dir, 0700), 0);
    cr_assert_eq(chown(dir, 12345, 12346), 0);
    cr_assert_eq(pki_dir_open(dir, &at, &err), 0);
    cr_assert_eq(pki_file_write(&at, "file", PKI_SECRET, "x", 1, &err), 0, "%s", err.text);
    cr_assert_eq(fstatat(at.fd, "file", &is, 0), 0);
    cr_assert(is.st_uid == 12345 && is.st_gid == 12346);
    cr_assert_eq(pki_dir_enter_or_make(&at, "in", false, &in, &err), 0, "%s", err.text);
    cr_assert_eq(fstat(in.fd, &is), 0);
    cr_assert(is.st_uid == 12345 && in.owner == 12345 && (is.st_mode & 07777) == 0700);
    pki_dir_close(&in);
    pki_dir_close(&at);
}

Test(pki_files, a_lock_is_held_by_one_and_waits_for_a_bounded_time) {
    struct pki_error err;
    struct pki_dir at;
    int lock, again;
    rig_path(dir, "locked");
    cr_assert_eq(pki_dir_make(dir, &at, &err), 0);
    cr_assert_eq(pki_lock(&at, &lock, &err), 0);
    cr_assert_eq(pki_lock(&at, &again, &err), RDMAD_E_BUSY);
    cr_assert(strstr(err.text, "held by another"), "%s", err.text);
    pki_unlock(lock);
    cr_assert_eq(pki_lock(&at, &lock, &err), 0);
    pki_unlock(lock);
    pki_dir_close(&at);
}

Test(pki_files, where_the_identity_is_by_default) {
    char buf[PKI_PATH_MAX];
    cr_assert_str_eq(pki_default_dir(NULL, buf), "/etc/rdmad/identity");
    cr_assert_str_eq(pki_default_dir("/etc/rdmad.json", buf), "/etc/rdmad/identity");
    cr_assert_str_eq(pki_default_dir("/usr/local/etc/rdmad.json", buf),
                     "/usr/local/etc/rdmad/identity");
    cr_assert_str_eq(pki_default_dir("/etc/rdmad/a.json", buf), "/etc/rdmad/identity");
    cr_assert_str_eq(pki_default_dir("/srv/x/a.json", buf), "/srv/x/identity");
    cr_assert_str_eq(pki_default_dir("a.json", buf), "identity");
}
