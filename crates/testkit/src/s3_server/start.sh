#!/usr/bin/env bash
# A Ceph of one monitor, one OSD in memory and one S3 gateway, on loopback, until standard input ends.
#
# Standard input is a pipe that the tests hold: it ends when they do, however they end, and then
# everything that was started here is killed by its ID and the folder removed.
set -euo pipefail
folder=$1 monitor_port=$2 gateway_port=$3 access_key=$4 secret_key=$5

started=()
end() {
    for id in "${started[@]}"; do
        kill -9 "$id" 2>/dev/null || true
    done
    wait
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' INT TERM

mkdir -p "$folder"/{mon,osd,rgw,log}
conf=$folder/ceph.conf
cat >"$conf" <<EOF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon_host = v1:127.0.0.1:$monitor_port
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
osd_crush_chooseleaf_type = 0
# The map says both already; asking for them fails while the monitor has not read it.
osd_crush_update_on_start = false
osd_class_update_on_start = false
osd_objectstore = memstore
memstore_device_bytes = 4294967296
mon_data = $folder/mon
osd_data = $folder/osd
rgw_data = $folder/rgw
run_dir = $folder
log_file = $folder/log/\$name.log
admin_socket = $folder/\$name.asok
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
rgw_multipart_min_part_size = 5242880
rgw_enable_usage_log = false
rgw_enable_ops_log = false
EOF

daemon() {
    "$@" -c "$conf" -f </dev/null >>"$folder/log/started" 2>&1 &
    started+=("$!")
}

fsid=$(awk '/^fsid/ { print $3 }' "$conf")
monmaptool --create --addv a "[v1:127.0.0.1:$monitor_port]" --fsid "$fsid" "$folder/monmap" >/dev/null
# The map has the OSD already, so that no monitor needs to be asked to make it.
osdmaptool --createsimple 1 --clobber "$folder/osdmap" >/dev/null 2>&1
ceph-mon -c "$conf" --mkfs -i a --monmap "$folder/monmap" --osdmap "$folder/osdmap" --keyring /dev/null
daemon ceph-mon -i a --public-addr "127.0.0.1:$monitor_port"
ceph-osd -c "$conf" -i 0 --mkfs --no-mon-config --osd-uuid "$(cat /proc/sys/kernel/random/uuid)" 2>>"$folder/log/started"
daemon ceph-osd -i 0
timeout 120 radosgw-admin -c "$conf" user create --uid=tests --display-name=tests \
    --access-key="$access_key" --secret-key="$secret_key" >/dev/null
kill -0 "${started[@]}"
daemon radosgw -n client.rgw --rgw-frontends="beast endpoint=127.0.0.1:$gateway_port"
echo "started"
cat >/dev/null
