/* SPDX-License-Identifier: MIT */
/*
 * hardware.c - the question behind --require-rdma, answered from sysfs without opening a device.
 */
#include "daemon/hardware.h"
#include <dirent.h>
#include <stdio.h>

#define SYS_DEVICES "/sys/class/infiniband"

static int count_devices(char *first, size_t size) {
    int count = 0;
    DIR *dir = opendir(SYS_DEVICES);
    if (!dir)
        return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        if (count++ == 0)
            snprintf(first, size, "%s", e->d_name);
    }
    closedir(dir);
    return count;
}

int hardware_require(struct error *err) {
    char first[256];
    int devices = count_devices(first, sizeof(first));
    if (!devices)
        return error_set(err, RDMAD_E_FABRIC,
                         "RDMA is required and this machine has no RDMA device (" SYS_DEVICES
                         " is empty or missing); load the device's driver, or start without "
                         "require_rdma to use RDMA over TCP");
    return error_set(err, RDMAD_E_FABRIC,
                     "RDMA is required and this version of rdmad has no verbs fabric yet, though "
                     "the machine has %d RDMA device%s (%s%s); start without require_rdma to use "
                     "RDMA over TCP",
                     devices, devices == 1 ? "" : "s", first, devices == 1 ? "" : ", ...");
}
