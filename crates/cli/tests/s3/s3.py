"""Serves S3 with moto on a port of 127.0.0.1, and looks into its bucket with boto3.

usage: s3.py serve BUCKET                       the address as one line once it listens; ends with its stdin
       s3.py download ADDRESS BUCKET FOLDER     every object, in its newest version
       s3.py change ADDRESS BUCKET KEY          a new version of an object, with its first letter changed
       s3.py erase ADDRESS BUCKET KEY           every version of an object: what Object Lock refuses

The bucket has Object Lock: for a day, no key deletes what was written.
"""

import pathlib
import sys

import boto3
import botocore.exceptions


def client(address):
    """Other keys than those of the daemon; moto takes all."""
    keys = {"aws_access_key_id": "reader", "aws_secret_access_key": "reader"}
    return boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys)


def serve(bucket):
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    s3 = client(address)
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    lock = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=lock)
    print(address, flush=True)
    sys.stdin.read()


def download(address, bucket, folder):
    s3 = client(address)
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for found in page.get("Contents", []):
            to = pathlib.Path(folder, found["Key"])
            to.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, found["Key"], str(to))


def change(address, bucket, key):
    s3 = client(address)
    content = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    other = b"x" if content[:1] != b"x" else b"y"
    s3.put_object(Bucket=bucket, Key=key, Body=other + content[1:], ChecksumAlgorithm="SHA256")


def erase(address, bucket, key):
    s3 = client(address)
    for version in s3.list_object_versions(Bucket=bucket, Prefix=key)["Versions"]:
        try:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=version["VersionId"])
        except botocore.exceptions.ClientError as error:
            print(error.response["Error"]["Code"])


verb, *words = sys.argv[1:]
{"serve": serve, "download": download, "change": change, "erase": erase}[verb](*words)
