# SPDX-License-Identifier: Apache-2.0
"""An S3 client that is not ours, for putting objects into the store."""

from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config

from rig.store import ACCESS_KEY, REGION, SECRET_KEY


def client(store):
    return boto3.client("s3", endpoint_url=store.endpoint, aws_access_key_id=ACCESS_KEY,
                        aws_secret_access_key=SECRET_KEY, region_name=REGION,
                        config=Config(s3={"addressing_style": "path"}, max_pool_connections=16,
                                      retries={"max_attempts": 3}))


def put_all(s3, bucket, bodies):
    """`bodies`: key -> bytes."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda item: s3.put_object(Bucket=bucket, Key=item[0], Body=item[1]),
                      bodies.items()))
