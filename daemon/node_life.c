/* SPDX-License-Identifier: MIT */
/*
 * node_life.c - node.secret: read, counted up, written anew under another name, put in its place.
 * The count is on disk before anybody is told of the life: no life is told twice.
 */
#include "daemon/node_life.h"
#include "daemon/base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "rdmad-node-1\n"

struct secret { /* as it is in the file */
    char magic[sizeof(MAGIC) - 1];
    uint8_t bytes[HASH_BYTES];
    uint8_t lives[4]; /* little-endian */
};

static uint32_t lives_of(const struct secret *s) {
    const uint8_t *b = s->lives;
    return (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

static void set_lives(struct secret *s, uint32_t n) {
    for (unsigned i = 0; i < sizeof(s->lives); i++)
        s->lives[i] = (uint8_t)(n >> (8 * i));
}

/* false: there is none that can be used. */
static bool read_secret(const char *path, struct secret *out) {
    struct stat is;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        if (errno != ENOENT)
            LOG(WARNING,
                ("%s cannot be read (%s); peers will see a new node", path, strerror(errno)));
        return false;
    }
    bool ok = fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == geteuid() &&
              !(is.st_mode & 077) && is.st_size == (off_t)sizeof(*out) &&
              read(fd, out, sizeof(*out)) == (ssize_t)sizeof(*out) &&
              memcmp(out->magic, MAGIC, sizeof(out->magic)) == 0;
    if (!ok)
        LOG(WARNING, ("%s is damaged, or not rdmad's alone; peers will see a new node", path));
    close(fd);
    return ok;
}

static bool has_lives(const struct secret *s) {
    if (lives_of(s) < LIFE_LAST)
        return true;
    LOG(NOTICE, ("this node has had its %u lives, and becomes another", lives_of(s)));
    return false;
}

static int write_secret(const char *path, const struct secret *s, struct error *err) {
    char fresh[144];
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    (void)unlink(fresh); /* of a start that was killed just here */
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make %s", fresh);
    bool ok = write(fd, s, sizeof(*s)) == (ssize_t)sizeof(*s) && fsync(fd) == 0;
    int saved = errno;
    close(fd);
    if (ok && rename(fresh, path) == 0)
        return RDMAD_OK;
    errno = ok ? errno : saved;
    int rc = error_errno(err, RDMAD_E_SYSTEM, "cannot write %s", path);
    (void)unlink(fresh);
    return rc;
}

/* "" where there is none. */
static void read_machine_id(char out[33]) {
    int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, out, 32);
    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

static void make_life(const struct secret *s, struct state *st) {
    static const char resume[] = "sessions that are resumed";
    uint8_t mixed[HASH_BYTES];
    struct {
        uint8_t secret[HASH_BYTES];
        char machine[33];
    } both = {0};
    memcpy(both.secret, s->bytes, sizeof(both.secret));
    read_machine_id(both.machine);
    hash_bytes(&both, sizeof(both), mixed);
    life_make(mixed, lives_of(s), &st->life);
    hash_keyed(mixed, resume, sizeof(resume), st->resume_key);
}

static bool fill_random(void *to, size_t size) {
    return getrandom(to, size, 0) == (ssize_t)size;
}

#define PATH_SIZE 128u

static void secret_path(const char *runtime_dir, char out[PATH_SIZE]) {
    snprintf(out, PATH_SIZE, "%s/node.secret", runtime_dir);
}

int node_life_load(const char *runtime_dir, struct state *st, struct error *err) {
    struct secret s;
    char path[PATH_SIZE];

    secret_path(runtime_dir, path);
    if (!fill_random(st->node_id, sizeof(st->node_id)) ||
        !fill_random(st->line_secret, sizeof(st->line_secret)))
        return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for the node's id");
    if (!read_secret(path, &s) || !has_lives(&s)) {
        memcpy(s.magic, MAGIC, sizeof(s.magic));
        set_lives(&s, 0);
        if (!fill_random(s.bytes, sizeof(s.bytes)))
            return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for the node's secret");
    }
    set_lives(&s, lives_of(&s) + 1);
    int rc = write_secret(path, &s, err);
    if (!rc)
        make_life(&s, st);
    return rc;
}

void node_life_take_back(const char *runtime_dir) {
    struct secret s;
    struct error why;
    char path[PATH_SIZE];
    secret_path(runtime_dir, path);
    if (!read_secret(path, &s) || lives_of(&s) == 0)
        return;
    set_lives(&s, lives_of(&s) - 1);
    if (write_secret(path, &s, &why))
        LOG(WARNING, ("a life that did not begin stays counted: %s", why.text));
}
