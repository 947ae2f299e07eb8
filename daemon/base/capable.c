/* SPDX-License-Identifier: MIT */
#include "daemon/base/capable.h"
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

bool capable(int capability) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {0};
    unsigned number = (unsigned)capability;
    return syscall(SYS_capget, &header, caps) == 0 &&
           caps[number / 32].effective >> number % 32 & 1;
}

static bool capable_is_member(gid_t group) {
    int n = getgroups(0, NULL);
    gid_t *all = n > 0 ? calloc((size_t)n, sizeof(*all)) : NULL;
    bool has = group == getegid();
    if (all)
        n = getgroups(n, all);
    for (int i = 0; all && i < n && !has; i++)
        has = all[i] == group;
    free(all);
    return has;
}

bool capable_of_group(gid_t group) {
    return capable_is_member(group) || capable(CAP_CHOWN);
}

bool capable_of_user(uid_t user) {
    return user == geteuid() || capable(CAP_CHOWN);
}
