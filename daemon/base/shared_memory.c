/* SPDX-License-Identifier: MIT */
/*
 * shared_memory.c - make or take, look, end.
 */
#include "daemon/base/shared_memory.h"
#include "common/memfd.h"
#include "daemon/base/hole_guard.h"
#include "daemon/base/undumped.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define STEP ((size_t)64 << 10) /* between two looks for holes */
#define HUGE_STEP ((size_t)2 << 20)

/* ---- make and take ------------------------------------------------------------------------- */

static int cannot_be_made(const struct shared_memory *m, size_t bytes, bool huge, int code,
                          struct error *err) {
    return error_errno(err, code, "a %s of %zu bytes%s cannot be made", m->what, bytes,
                       huge ? " in huge pages (are enough reserved in vm.nr_hugepages?)" : "");
}

int shared_memory_make(struct shared_memory *m, const char *what, const char *name, size_t bytes,
                       unsigned flags, struct error *err) {
    bool huge = flags & SHARED_HUGE;
    *m = (struct shared_memory){.what = what,
                                .readable = flags & SHARED_READ,
                                .ours = flags & SHARED_OURS,
                                .loose = flags & SHARED_LOOSE};
    assert(!m->loose || !huge);
    m->fd = rdmad_memfd_create(name, &bytes, huge);
    if (m->fd < 0)
        return cannot_be_made(m, bytes, huge, m->fd, err);
    m->bytes = bytes;
    m->base = rdmad_memfd_map(m->fd, bytes, !m->readable);
    if (m->base)
        undumped_mark(m->base, bytes);
    int rc = 0;
    if (!m->base || (m->ours && rdmad_memfd_freeze(m->fd)))
        rc = cannot_be_made(m, bytes, huge, RDMAD_E_NOMEM, err);
    else if (m->loose)
        rc = hole_guard_add(m->base, bytes, err);
    if (!rc)
        return 0;
    shared_memory_end(m);
    return rc;
}

int shared_memory_check_kind(const char *what, int fd, struct error *err) {
    struct statfs fs;
    if (fcntl(fd, F_GET_SEALS) < 0) /* fails on everything but memfds, and asks no file system */
        return error_set(err, RDMAD_E_FDS,
                         "the descriptor is not of a memfd: only memfd_create makes memory that "
                         "can be imported as a %s",
                         what);
    if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return error_set(err, RDMAD_E_PERM,
                         "a memfd of huge pages cannot be imported, for to map it is to wait for "
                         "whoever has it; make the %s with RDMAD_POOL_HUGETLB instead",
                         what);
    return 0;
}

static int check_memfd(const struct shared_memory *m, struct error *err) {
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
    const int forbidden = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | (m->loose ? 0 : F_SEAL_SEAL);
    int seals = fcntl(m->fd, F_GET_SEALS), flags = fcntl(m->fd, F_GETFL);
    struct stat st;

    if ((seals & needed) != needed)
        return error_set(
            err, RDMAD_E_PERM,
            "the memfd is not sealed with F_SEAL_SHRINK and F_SEAL_GROW: its seals are "
            "0x%x, 0x%x are needed",
            (unsigned)seals, (unsigned)needed);
    if (seals & forbidden)
        return error_set(err, RDMAD_E_PERM,
                         "the memfd has the seals 0x%x before it is imported: it must be writable, "
                         "and is sealed further after that",
                         (unsigned)(seals & forbidden));
    if (flags < 0 || (flags & O_ACCMODE) != O_RDWR)
        return error_set(err, RDMAD_E_PERM,
                         "the memfd's descriptor is not for reading and writing");
    if (fstat(m->fd, &st) < 0 || st.st_size < 0 || (uint64_t)st.st_size != m->bytes)
        return error_set(err, RDMAD_E_FDS, "the memfd has %lld bytes, %zu were said",
                         (long long)st.st_size, m->bytes);
    return 0;
}

int shared_memory_take(struct shared_memory *m, const char *what, int fd, size_t bytes,
                       unsigned flags, struct error *err) {
    *m = (struct shared_memory){
        .what = what, .fd = fd, .bytes = bytes, .loose = flags & SHARED_LOOSE};
    int rc = shared_memory_check_kind(what, fd, err);
    if (!rc)
        rc = check_memfd(m, err);
    if (!rc && !(m->base = rdmad_memfd_map(fd, bytes, true)))
        rc = error_errno(err, RDMAD_E_NOMEM, "a %s of %zu bytes cannot be mapped", what, bytes);
    else if (!rc)
        undumped_mark(m->base, bytes);
    if (!rc && m->loose)
        rc = hole_guard_add(m->base, bytes, err);
    if (rc)
        shared_memory_end(m);
    return rc;
}

/* ---- settle -------------------------------------------------------------------------------- */

static int check_sealed(const struct shared_memory *m, struct error *err) {
    const int needed =
        F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (m->loose ? 0 : F_SEAL_FUTURE_WRITE);
    int seals = fcntl(m->fd, F_GET_SEALS);
    if (seals < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "the %s's seals cannot be read", m->what);
    if ((seals & needed) != needed)
        return error_set(err, RDMAD_E_PERM,
                         "the %s's memory is not sealed: its seals are 0x%x, 0x%x are needed; add "
                         "%sF_SEAL_SEAL when all of it is populated",
                         m->what, (unsigned)seals, (unsigned)needed,
                         m->loose ? "" : "F_SEAL_FUTURE_WRITE and ");
    return 0;
}

/* The pages that the memfd has, in bytes. */
static uint64_t there(const struct shared_memory *m) {
    struct stat st;
    return fstat(m->fd, &st) == 0 && st.st_blocks > 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static int has_holes(const struct shared_memory *m, uint64_t bytes, struct error *err) {
    return error_set(err, RDMAD_E_PERM,
                     "the %s's memory has holes, %llu of its %zu bytes are there: populate all of "
                     "it (MADV_POPULATE_WRITE) before it is sealed",
                     m->what, (unsigned long long)bytes, m->bytes);
}

/* Of guarded memory (hole_guard.h). */
static bool meets_hole(char *at, size_t bytes) {
    return madvise(at, bytes, MADV_POPULATE_WRITE) < 0 && errno == EFAULT;
}

/* A slice into our page tables. No page is made by that, or there was a hole. */
static int come_by(struct shared_memory *m, size_t at, size_t bytes, uint64_t were,
                   struct error *err) {
    struct statfs fs;
    size_t step = fstatfs(m->fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC ? HUGE_STEP : STEP;
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < step ? bytes - done : step;
        if (m->loose && meets_hole((char *)m->base + at + done, n))
            return has_holes(m, were, err);
        if (rdmad_memfd_populate((char *)m->base + at + done, n, !m->readable))
            return error_errno(err, RDMAD_E_NOMEM, "the memory of a %s of %zu bytes cannot be had",
                               m->what, m->bytes);
        /* A count that falls is of pages past the end, taken away to hide what we fill. */
        if (!m->loose && there(m) != were) {
            m->lied = true;
            return error_set(err, RDMAD_E_PERM,
                             "the %s's memory has holes, though the pages that it is counted with "
                             "would fill it: some lie past its end",
                             m->what);
        }
    }
    return 0;
}

static int each_slice(struct shared_memory *m, bool (*wanted)(const void *), const void *arg,
                      struct error *err) {
    uint64_t were = there(m);
    bool lock = true;
    int rc = were < m->bytes ? has_holes(m, were, err) : 0;
    for (size_t at = 0, n; !rc && at < m->bytes; at += n) {
        n = m->bytes - at < SHARED_MEMORY_SLICE ? m->bytes - at : SHARED_MEMORY_SLICE;
        rc = come_by(m, at, n, were, err);
        if (!rc && wanted && !wanted(arg))
            rc = error_set(err, RDMAD_E_SHUTDOWN, "the session is ending");
        /* So that no touch of ours waits for a disk, or for the client's cgroup to find room. What
         * is over the limit is not, as without swap it need not be. (It makes pages, too.) */
        lock = lock && !rc && mlock((char *)m->base + at, n) == 0;
    }
    m->locked = lock && !rc;
    return rc;
}

int shared_memory_settle(struct shared_memory *m, bool (*wanted)(const void *arg), const void *arg,
                         struct error *err) {
    assert(m->base);
    if (m->settled)
        return 0;
    int rc = check_sealed(m, err);
    if (!rc)
        rc = each_slice(m, wanted, arg, err);
    if (rc)
        return rc;
    m->settled = true;
    close(m->fd); /* the mapping keeps the memory */
    m->fd = -1;
    return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

void shared_memory_end(struct shared_memory *m) {
    for (size_t at = 0, n; m->base && at < m->bytes; at += n) {
        n = m->bytes - at < SHARED_MEMORY_SLICE ? m->bytes - at : SHARED_MEMORY_SLICE;
        munmap((char *)m->base + at, n);
    }
    if (m->what && m->fd >= 0)
        close(m->fd);
    *m = (struct shared_memory){.fd = -1};
}
