//! Sends an `ExportProfilesServiceRequest` from a file by the generated gRPC client, in every encoding, and prints the answers:
//! `otlp-client http://127.0.0.1:8003 request.pb`.

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::collector::profiles::v1development::profiles_service_client::ProfilesServiceClient;
use prost::Message as _;
use tonic::codec::CompressionEncoding;
use tonic::transport::Endpoint;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("usage: otlp-client URL FILE".into());
    };
    let request = ExportProfilesServiceRequest::decode(&*std::fs::read(file)?)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let channel = Endpoint::from_shared(url)?.connect().await?;
        for encoding in [
            None,
            Some(CompressionEncoding::Gzip),
            Some(CompressionEncoding::Zstd),
        ] {
            let mut client = ProfilesServiceClient::new(channel.clone());
            if let Some(encoding) = encoding {
                client = client
                    .send_compressed(encoding)
                    .accept_compressed(encoding);
            }
            match client.export(request.clone()).await {
                Ok(answer) => println!("{encoding:?}: {:?}", answer.into_inner()),
                Err(status) => println!("{encoding:?}: {:?}: {}", status.code(), status.message()),
            }
        }
        Ok(())
    })
}
