#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# devices.sh [INTERFACE ADDRESS]: Soft-RoCE devices, in the guest. Without arguments two, as of two
# hosts: rxe0 over va (10.77.0.1) and rxe1 over vb (10.77.0.2), the ends of a veth pair. With arguments
# one, rxe0, over an interface that is there.
#
# Both ends of the pair are in one network namespace, for rxe knows only one. What rxe sends goes out
# of its interface whatever the routes say, so `ip link set va down` and `tc qdisc add dev va root
# netem` do between the two what a bad cable does; what TCP sends between the two addresses stays on
# lo. The kernel must be told to take packets from its own addresses.
set -euo pipefail

sysctl() { echo "$2" >"/proc/sys/net/$1"; }

address() { # INTERFACE ADDRESS
    sysctl "ipv6/conf/$1/accept_dad" 0
    sysctl "ipv4/conf/$1/rp_filter" 0
    ip address add "$2/24" dev "$1"
    ip link set "$1" up
}

modprobe -a rdma_rxe ib_uverbs rdma_ucm
modprobe -qa crc32_generic || true # rxe's, where it is a module of its own

if [ $# = 2 ]; then
    address "$1" "$2"
    rdma link add rxe0 type rxe netdev "$1"
    exit
fi
modprobe -a veth
sysctl ipv4/conf/all/accept_local 1
sysctl ipv4/conf/all/rp_filter 0
# A RoCE packet of 4096 bytes, the largest RDMA MTU, and its headers fit.
ip link add va mtu 4200 type veth peer name vb mtu 4200
address va 10.77.0.1
address vb 10.77.0.2
rdma link add rxe0 type rxe netdev va
rdma link add rxe1 type rxe netdev vb
