#!/usr/bin/env bash
# A Ceph of monitors, OSDs in memory and S3 gateways, on loopback, until standard input ends.
#
# Standard input is a pipe that the tests hold: it ends when they do, however they end, and then
# everything that was started here is killed by its ID and the folder removed. Until then its lines
# are orders, each answered by a line when it is done: `kill osd.1`, `start osd.1`, `silence osd.1`,
# `wake osd.1`.
set -euo pipefail
folder=$1 access_key=$2 secret_key=$3 osds=$4
read -ra monitor_ports <<<"$5"
read -ra gateway_ports <<<"$6"

declare -A running
end() {
    kill -9 "${running[@]}" 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' INT TERM

mkdir -p "$folder/log"
addresses=() additions=()
for at in "${!monitor_ports[@]}"; do
    address=v1:127.0.0.1:${monitor_ports[at]}
    addresses+=("[$address]")
    additions+=(--addv "$at" "[$address]")
done
fsid=$(cat /proc/sys/kernel/random/uuid)
conf=$folder/ceph.conf
cat >"$conf" <<EOF
[global]
fsid = $fsid
mon_host = ${addresses[*]}
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
# A copy on each OSD, and a majority of them to go on.
osd_pool_default_size = $osds
osd_pool_default_min_size = $((osds / 2 + 1))
# So many that each of three OSDs comes first for some of a pool.
osd_pool_default_pg_num = $((osds == 1 ? 1 : 4))
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
# One after another and with pauses is for disks; filling an OSD in memory would take minutes.
osd_max_backfills = 16
osd_recovery_sleep_hdd = 0
osd_recovery_sleep_hybrid = 0
# The OSDs are on one host: the next is another failure domain, and a witness that one is down.
osd_crush_chooseleaf_type = 0
mon_osd_reporter_subtree_level = osd
# The map says both already; asking for them fails while the monitor has not read it.
osd_crush_update_on_start = false
osd_class_update_on_start = false
osd_objectstore = memstore
memstore_device_bytes = 4294967296
mon_data = $folder/mon-\$id
osd_data = $folder/osd-\$id
rgw_data = $folder/rgw-\$id
run_dir = $folder
log_file = $folder/log/\$name.log
admin_socket = $folder/\$name.asok
# What is chosen here, or another's disk, is no news of its health.
mon_warn_on_insecure_global_id_reclaim_allowed = false
mon_warn_on_msgr2_not_enabled = false
mon_data_avail_warn = 1
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
rgw_multipart_min_part_size = 5242880
rgw_enable_usage_log = false
rgw_enable_ops_log = false
EOF

# One of them by its name: mon.0, osd.0, rgw.0.
start() {
    local at=${1#*.} program
    case $1 in
    mon.*) program=(ceph-mon -i "$at" --public-addr "127.0.0.1:${monitor_ports[at]}") ;;
    osd.*) program=(ceph-osd -i "$at") ;;
    rgw.*) program=(radosgw -n "client.$at" --rgw-frontends="beast endpoint=127.0.0.1:${gateway_ports[at]}") ;;
    esac
    "${program[@]}" -c "$conf" -f </dev/null >>"$folder/log/started" 2>&1 &
    running[$1]=$!
}

monmaptool --create "${additions[@]}" --fsid "$fsid" "$folder/monmap" >/dev/null
# The map has the OSDs already, so that no monitor needs to be asked to make them.
osdmaptool -c "$conf" --createsimple "$osds" --clobber "$folder/osdmap" >/dev/null 2>&1
for at in "${!monitor_ports[@]}"; do
    ceph-mon -c "$conf" --mkfs -i "$at" --monmap "$folder/monmap" --osdmap "$folder/osdmap" --keyring /dev/null
    start "mon.$at"
done
for ((at = 0; at < osds; at++)); do
    mkdir "$folder/osd-$at"
    ceph-osd -c "$conf" -i "$at" --mkfs --no-mon-config --osd-uuid "$(cat /proc/sys/kernel/random/uuid)" 2>>"$folder/log/started"
    start "osd.$at"
done
# On a busy machine it has been seen to wait for ever: another one is tried.
create_user() {
    timeout 50 radosgw-admin -c "$conf" user create --uid=tests --display-name=tests \
        --access-key="$access_key" --secret-key="$secret_key" >/dev/null
}
create_user || timeout 50 radosgw-admin -c "$conf" user info --uid=tests >/dev/null || create_user
kill -0 "${running[@]}"
for at in "${!gateway_ports[@]}"; do
    mkdir "$folder/rgw-$at"
    start "rgw.$at"
done
echo "started"

while read -r order name; do
    case $order in
    kill)
        kill -9 "${running[$name]}"
        wait "${running[$name]}" || true
        unset "running[$name]"
        ;;
    start) start "$name" ;;
    silence) kill -STOP "${running[$name]}" ;;
    wake) kill -CONT "${running[$name]}" ;;
    esac
    echo "done: $order $name"
done
