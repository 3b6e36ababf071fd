// SPDX-License-Identifier: Apache-2.0
//! Errors of HDFS as failures: those of its own client, and exceptions of NameNodes below an error
//! of OpenDAL.
use std::error::Error as _;

use hdfs_native::HdfsError;
use opendal::ErrorKind;

use crate::core::failure::{Code, Failure};

pub fn explain_hdfs(error: HdfsError) -> Failure {
    let code = match &error {
        HdfsError::FileNotFound(_) => Code::NotFound,
        HdfsError::AlreadyExists(_) => Code::Exists,
        HdfsError::IsADirectoryError(_) => Code::NotFound,
        HdfsError::InvalidPath(_) | HdfsError::InvalidArgument(_) => Code::InvalidArgument,
        HdfsError::UnsupportedFeature(_) | HdfsError::UnsupportedErasureCodingPolicy(_) => {
            Code::Unsupported
        }
        HdfsError::IOError(_) | HdfsError::DataTransferError(_) => Code::Unavailable,
        HdfsError::RPCError(class, _) | HdfsError::FatalRPCError(class, _) => code_of_class(class),
        HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) | HdfsError::NoSASLMechanism => {
            Code::PermissionDenied
        }
        _ => Code::Internal,
    };
    Failure::new(code, error.to_string())
}

/// Returns the exception of a NameNode as a failure; OpenDAL distinguishes only missing files.
pub fn name_node_exception(error: &opendal::Error) -> Option<Failure> {
    if error.kind() != ErrorKind::Unexpected {
        return None;
    }
    match error.source()?.downcast_ref::<HdfsError>()? {
        HdfsError::RPCError(class, text) | HdfsError::FatalRPCError(class, text) => {
            // The Java stack follows the first line.
            let line = text.lines().next().unwrap_or(class);
            Some(Failure::new(code_of_class(class), line))
        }
        _ => None,
    }
}

/// Maps the exception class of a NameNode.
fn code_of_class(class: &str) -> Code {
    match class.rsplit('.').next().unwrap_or_default() {
        "AccessControlException" => Code::PermissionDenied,
        "FileNotFoundException" => Code::NotFound,
        "FileAlreadyExistsException" => Code::Exists,
        "ParentNotDirectoryException" | "PathIsNotDirectoryException" => Code::NotDirectory,
        "StandbyException" | "RetriableException" | "SafeModeException" => Code::Unavailable,
        _ => Code::Internal,
    }
}
