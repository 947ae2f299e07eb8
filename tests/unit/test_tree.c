/* SPDX-License-Identifier: MIT */
/* What fetch believes of a lease that somebody else made: lists of directories, footers, and what
 * lies where it writes. */
#include "rdmactl/bundle.h"
#include "rdmactl/cli.h"
#include "rdmactl/target.h"
#include "rdmactl/tree.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cli cli = {.dir = "/nowhere"};

#define FILE_MODE (S_IFREG | 0644)
#define DIRECTORY (S_IFDIR | 0755)
#define ENTRIES 100u

static struct tree tree;

static const char *judge(uint64_t contents) {
    return tree_judge(&tree, contents, ENTRIES, TREE_DEPTH);
}

static void refuse(const char *name, mode_t mode, uint64_t size, unsigned depth, const char *why) {
    uint64_t contents = tree.contents + size;
    cr_assert(tree_append(&tree, name, mode, size, depth));
    const char *said = judge(contents);
    cr_assert(said && strstr(said, why), "\"%s\" mode %o depth %u: %s", name, mode, depth,
              said ? said : "taken");
    tree_free(&tree);
}

static void add(const char *name, mode_t mode, uint64_t size, unsigned depth) {
    cr_assert(tree_append(&tree, name, mode, size, depth));
}

Test(tree, a_list_is_taken_apart_as_it_was_made) {
    char path[64];
    add("a", DIRECTORY, 0, 0);
    add("b", DIRECTORY, 0, 1);
    add("c", FILE_MODE, 5, 2);
    add("d", FILE_MODE, 7, 1);
    add("e", FILE_MODE, 0, 0);
    cr_assert_null(judge(12));
    cr_assert_eq(tree.count, 5);
    cr_assert(tree_path(&tree, &tree.entry[2], path, sizeof(path)));
    cr_assert_str_eq(path, "a/b/c");
    cr_assert(tree_path(&tree, &tree.entry[3], path, sizeof(path)));
    cr_assert_str_eq(path, "a/d");
    cr_assert_eq(tree.entry[3].offset, 5);
    cr_assert_not(tree_path(&tree, &tree.entry[2], path, 6), "a path longer than its room");
    tree_free(&tree);
}

Test(tree, no_name_leads_elsewhere) {
    char longest[TREE_NAME_MAX + 2];
    memset(longest, 'x', sizeof(longest));
    longest[TREE_NAME_MAX + 1] = '\0';
    const char *const names[] = {"", ".", "..", "/", "/etc", "a/b", "../x", longest};
    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
        refuse(names[i], FILE_MODE, 1, 0, "name");
    add("a0b", FILE_MODE, 1, 0);
    tree.list[TREE_RECORD + 1] = '\0';
    cr_assert_str_eq(judge(1), "a name in it is none that a file can have");
    tree_free(&tree);
}

Test(tree, there_are_files_and_directories_and_nothing_else) {
    const mode_t modes[] = {S_IFLNK | 0777,  S_IFCHR | 0666, S_IFBLK | 0666, S_IFIFO | 0666,
                            S_IFSOCK | 0666, 0644,           UINT32_MAX};
    for (unsigned i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        refuse("x", modes[i], 0, 0, "neither");
    refuse("x", DIRECTORY, 1, 0, "neither");
}

Test(tree, an_entry_lies_in_a_directory_before_it) {
    refuse("x", FILE_MODE, 1, 1, "in no directory");
    add("a", FILE_MODE, 1, 0);
    refuse("x", FILE_MODE, 1, 1, "in no directory");
    add("a", DIRECTORY, 0, 0);
    refuse("x", FILE_MODE, 1, 2, "in no directory");
    add("a", DIRECTORY, 0, 0);
    add("b", FILE_MODE, 1, 0);
    refuse("x", FILE_MODE, 1, 1, "in no directory");
}

Test(tree, no_entry_comes_twice) {
    add("a", FILE_MODE, 1, 0);
    refuse("a", FILE_MODE, 1, 0, "order");
    add("b", DIRECTORY, 0, 0);
    refuse("a", FILE_MODE, 1, 0, "order");
    add("a", DIRECTORY, 0, 0);
    add("x", FILE_MODE, 1, 1);
    add("b", DIRECTORY, 0, 0);
    add("x", FILE_MODE, 1, 1);
    cr_assert_null(judge(2), "the same name in two directories");
    tree_free(&tree);
}

Test(tree, number_depth_and_sizes_have_bounds) {
    char name[16];
    for (unsigned i = 0; i <= ENTRIES; i++) {
        snprintf(name, sizeof(name), "%03u", i);
        add(name, FILE_MODE, 0, 0);
    }
    cr_assert(strstr(judge(0), "--max-entries"));
    tree_free(&tree);
    for (unsigned i = 0; i <= TREE_DEPTH; i++)
        add("x", DIRECTORY, 0, i);
    cr_assert(strstr(judge(0), "--max-depth"));
    tree_free(&tree);
    add("x", FILE_MODE, 0, UINT16_MAX);
    cr_assert_not_null(tree_judge(&tree, 0, ENTRIES, UINT32_MAX));
    tree_free(&tree);
    add("a", FILE_MODE, UINT64_MAX, 0);
    refuse("b", FILE_MODE, 1, 0, "larger than all memory");
    add("a", FILE_MODE, 5, 0);
    cr_assert(strstr(judge(4), "add up"));
    tree_free(&tree);
}

Test(tree, a_list_may_end_anywhere) {
    add("abc", FILE_MODE, 0, 0);
    size_t whole = tree.bytes;
    for (size_t bytes = 1; bytes < whole; bytes++) {
        struct tree cut = {.list = malloc(bytes), .bytes = bytes};
        memcpy(cut.list, tree.list, bytes);
        const char *why = tree_judge(&cut, 0, ENTRIES, TREE_DEPTH);
        cr_assert(why && strstr(why, "ends in the middle"), "%zu bytes", bytes);
        tree_free(&cut);
    }
    tree_free(&tree);
}

Test(tree, a_footer_is_what_share_makes_or_none) {
    struct bundle_footer f, out;
    uint64_t length;
    bundle_init(&f, BUNDLE_FILE, 1000001, 0);
    cr_assert(bundle_length(&f, &length));
    cr_assert_eq(length, 1000001 + 4 * BUNDLE_SUM + sizeof(f));
    cr_assert(bundle_judge(&f, length, &out));
    cr_assert_not(bundle_judge(&f, length + 1, &out), "a lease of another length");
    f.piece = 0;
    cr_assert_not(bundle_judge(&f, length, &out), "pieces of no bytes");
    f.piece = BUNDLE_PIECE + 4096;
    cr_assert_not(bundle_judge(&f, length, &out), "pieces that are no power of two");
    bundle_init(&f, BUNDLE_FILE, 1000001, 5);
    cr_assert_not(bundle_judge(&f, length + 5, &out), "a file with a list");
    bundle_init(&f, BUNDLE_DIRECTORY, UINT64_MAX - 10, 20);
    cr_assert_not(bundle_length(&f, &length), "more than can be");
}

/* ---- what lies where it writes --------------------------------------------------------------- */

static char dir[] = "/tmp/rdmad-tree.XXXXXX";
static struct target target;
static struct target_terms terms = {.tree = &tree, .sum = "0123456789abcdef0123456789abcdef"};

static void make_tree(void) {
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(chdir(dir), 0);
    add("a", DIRECTORY | 07000, 0, 0);
    add("f", S_IFREG | 06755, 4, 1);
    cr_assert_null(judge(4));
    terms.bytes = 4;
    cli.json = true; /* what it says is a line that nobody reads here */
}

static void remove_tree(void) {
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    cr_assert_eq(system(command), 0); /* NOLINT(concurrency-mt-unsafe) */
    tree_free(&tree);
}

Test(tree, modes_come_without_what_makes_them_dangerous) {
    struct stat st;
    make_tree();
    umask(022);
    cr_assert_eq(target_open(&target, "out", &terms), EXIT_GOOD);
    cr_assert_neq(stat("out", &st), 0, "it is there before it is whole");
    cr_assert_eq(target_put(&target, 0, "data", 4), EXIT_GOOD);
    cr_assert_eq(target_finish(&target), EXIT_GOOD);
    cr_assert_eq(stat("out/a/f", &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0755, "%o", st.st_mode);
    cr_assert_eq(stat("out/a", &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0755, "%o", st.st_mode);
    remove_tree();
}

Test(tree, links_that_lie_there_lead_nowhere) {
    struct stat st;
    make_tree();
    cr_assert_eq(mkdir("elsewhere", 0700), 0);
    cr_assert_eq(mkdir("out.0123456789abcdef.part", 0700), 0);
    cr_assert_eq(symlink("../elsewhere", "out.0123456789abcdef.part/a"), 0);
    cr_assert_eq(target_open(&target, "out", &terms), EXIT_FAILED, "a directory that is a link");
    target_discard(&target, true);
    cr_assert_neq(stat("elsewhere/f", &st), 0, "it wrote through a link");
    cr_assert_eq(unlink("out.0123456789abcdef.part/a"), 0);
    cr_assert_eq(mkdir("out.0123456789abcdef.part/a", 0700), 0);
    cr_assert_eq(symlink("../../elsewhere/f", "out.0123456789abcdef.part/a/f"), 0);
    cr_assert_eq(target_open(&target, "out", &terms), EXIT_FAILED, "a file that is a link");
    target_discard(&target, true);
    cr_assert_neq(stat("elsewhere/f", &st), 0, "it wrote through a link");
    cr_assert_eq(unlink("out.0123456789abcdef.part/a/f"), 0);
    cr_assert_eq(close(open("elsewhere/f", O_CREAT | O_WRONLY, 0600)), 0);
    cr_assert_eq(link("elsewhere/f", "out.0123456789abcdef.part/a/f"), 0);
    cr_assert_eq(target_open(&target, "out", &terms), EXIT_FAILED, "a file with another name");
    target_discard(&target, true);
    remove_tree();
}

Test(tree, what_is_there_is_found_and_otherwise_removed) {
    char data[4];
    struct stat st;
    make_tree();
    cr_assert_eq(target_open(&target, "out", &terms), EXIT_GOOD);
    cr_assert_not(target.resumed);
    cr_assert_eq(target_put(&target, 0, "data", 4), EXIT_GOOD);
    target_discard(&target, true);
    cr_assert_eq(target_open(&target, "out", &terms), EXIT_GOOD);
    cr_assert(target.resumed);
    cr_assert(target_get(&target, 0, data, 4));
    cr_assert_eq(memcmp(data, "data", 4), 0);
    target_discard(&target, false);
    cr_assert_neq(stat("out.0123456789abcdef.part", &st), 0, "nobody wanted it kept");
    remove_tree();
}

/* Put before libc's by the linker: the close of a file that brings this to 0 fails. */
static unsigned close_countdown;
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    struct stat st;
    bool fails = !fstat(fd, &st) && S_ISREG(st.st_mode) && close_countdown && !--close_countdown;
    int rc = __real_close(fd);
    if (!fails)
        return rc;
    errno = EDQUOT;
    return -1;
}

static int fetch_both(void) {
    int code = target_open(&target, "out", &terms);
    if (!code)
        code = target_put(&target, 0, "datadata", 8);
    if (!code)
        code = target_finish(&target);
    if (code)
        target_discard(&target, false);
    return code;
}

/* Over NFS that is what tells that a quota is used up. */
Test(tree, whatever_close_says_of_a_file_counts) {
    struct stat st;
    make_tree();
    free(tree.entry); /* it is judged once more */
    add("g", FILE_MODE, 4, 1);
    cr_assert_null(judge(8));
    terms.bytes = 8;
    /* of each: made, written, given its mode */
    for (unsigned i = 1; i <= 6; i++) {
        close_countdown = i;
        cr_assert_eq(fetch_both(), EXIT_FAILED, "close %u", i);
        cr_assert_eq(close_countdown, 0, "close %u", i);
        cr_assert_neq(stat("out", &st), 0, "close %u: it is there", i);
    }
    close_countdown = 7;
    cr_assert_eq(fetch_both(), EXIT_GOOD);
    cr_assert_eq(close_countdown, 1, "there are more than were tried");
    remove_tree();
}

static const char part_of_out[] = "out.0123456789abcdef.part";

/* Also where root replaces somebody else's. */
Test(tree, a_file_that_is_replaced_is_ours_alone_until_it_is_whole) {
    struct target_terms file = {.bytes = 4, .sum = terms.sum};
    uid_t owner = geteuid() ? geteuid() : 12345;
    struct stat st;
    char data[2];
    make_tree();
    cr_assert_eq(close(open("out", O_CREAT | O_WRONLY, 0600)), 0);
    cr_assert_eq(chmod("out", 0646), 0);
    cr_assert_eq(chown("out", owner, (gid_t)-1), 0);
    cr_assert_eq(target_open(&target, "out", &file), EXIT_GOOD);
    cr_assert_eq(target_put(&target, 0, "da", 2), EXIT_GOOD);
    target_discard(&target, true);
    cr_assert_eq(stat(part_of_out, &st), 0);
    cr_assert_eq(st.st_uid, geteuid(), "it is already another's");
    cr_assert_eq(st.st_mode & 0777, 0600, "%o", st.st_mode);
    cr_assert_eq(chmod(part_of_out, 0644), 0); /* as of a fetch that replaced nothing */
    cr_assert_eq(target_open(&target, "out", &file), EXIT_GOOD);
    cr_assert(target.resumed, "it begins anew");
    cr_assert(target_get(&target, 0, data, 2));
    cr_assert_eq(memcmp(data, "da", 2), 0);
    cr_assert_eq(stat(part_of_out, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600, "%o", st.st_mode);
    cr_assert_eq(target_put(&target, 2, "ta", 2), EXIT_GOOD);
    cr_assert_eq(target_finish(&target), EXIT_GOOD);
    cr_assert_eq(stat("out", &st), 0);
    cr_assert_eq(st.st_uid, owner);
    cr_assert_eq(st.st_mode & 0777, 0646, "%o", st.st_mode);
    cr_assert_neq(stat(part_of_out, &st), 0);
    remove_tree();
}

/* A part of what is to replace somebody's file, with all its bytes. */
static void fill_part(uid_t owner) {
    struct target_terms file = {.bytes = 4, .sum = terms.sum};
    make_tree();
    cr_assert_eq(close(open("out", O_CREAT | O_WRONLY, 0600)), 0);
    cr_assert_eq(chown("out", owner, (gid_t)-1), 0);
    cr_assert_eq(target_open(&target, "out", &file), EXIT_GOOD);
    cr_assert_eq(target_put(&target, 0, "data", 4), EXIT_GOOD);
}

Test(tree, a_file_that_is_gone_meanwhile_is_made_as_a_new_one) {
    struct target_terms file = {.bytes = 4, .sum = terms.sum};
    struct stat st;
    mode_t mask = umask(027);
    fill_part(geteuid());
    target_discard(&target, true);
    cr_assert_eq(unlink("out"), 0);
    cr_assert_eq(target_open(&target, "out", &file), EXIT_GOOD);
    cr_assert_eq(target_finish(&target), EXIT_GOOD);
    cr_assert_eq(stat("out", &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0640, "%o", st.st_mode);
    umask(mask);
    remove_tree();
}

Test(tree, a_file_that_does_not_get_its_name_stays_ours) {
    struct stat st;
    fill_part(geteuid() ? geteuid() : 12345);
    cr_assert_eq(unlink("out"), 0);
    cr_assert_eq(mkdir("out", 0700), 0);
    cr_assert_eq(target_finish(&target), EXIT_FAILED);
    cr_assert_eq(stat(part_of_out, &st), 0);
    cr_expect_eq(st.st_uid, geteuid(), "the next fetch does not go on there");
    cr_expect_eq(st.st_mode & 0777, 0600, "%o", st.st_mode);
    remove_tree();
}

Test(tree, a_part_of_a_file_that_is_not_ours_is_not_used) {
    struct target_terms file = {.bytes = 4, .sum = terms.sum};
    struct stat st;
    make_tree();
    cr_assert_eq(symlink("elsewhere", "out.0123456789abcdef.part"), 0);
    cr_assert_eq(target_open(&target, "out", &file), EXIT_GOOD);
    cr_assert_not(target.kept, "a link was taken for a part");
    cr_assert_eq(target_put(&target, 0, "data", 4), EXIT_GOOD);
    cr_assert_eq(target_finish(&target), EXIT_GOOD);
    cr_assert_neq(stat("elsewhere", &st), 0, "it wrote through a link");
    cr_assert_eq(stat("out", &st), 0);
    remove_tree();
}
