"""PyIceberg's files written as most engines write small ones: each in one PUT. PyArrow's own way is a
multipart upload, however short the file."""

import pyarrow.fs
import pyiceberg.io.pyarrow


class OnePieceFileIO(pyiceberg.io.pyarrow.PyArrowFileIO):
    """PyArrow's, but for what of S3 is asked when a small file is written."""

    def _initialize_s3_fs(self, netloc):
        return pyarrow.fs.S3FileSystem(
            endpoint_override=self.properties["s3.endpoint"],
            access_key=self.properties["s3.access-key-id"],
            secret_key=self.properties["s3.secret-access-key"],
            region=self.properties["s3.region"],
            allow_delayed_open=True,
        )


NAME = f"{OnePieceFileIO.__module__}.{OnePieceFileIO.__qualname__}"
