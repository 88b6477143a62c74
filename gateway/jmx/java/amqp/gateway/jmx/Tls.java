package amqp.gateway.jmx;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/**
 * TLS of the connector, with the protocols and ciphers that this Java prefers.
 *
 * <p>Key and certificates are only in memory: they come from Python, by standard input, and renewed ones by its
 * connection to {@link Bridge}. A client cannot resume a session of TLS with others than those it was begun with.
 */
final class Tls {
    /** Sessions that clients may resume; Java would keep 20,480 for a day, also those of strangers. */
    private static final int MAX_RESUMABLE = 256;

    private final SSLSocketFactory factory;
    private final boolean needsClientCertificate;

    /** @throws GeneralSecurityException this Java cannot use the key or a certificate */
    Tls(TlsSettings settings) throws GeneralSecurityException, IOException {
        // A client may not make the server calculate again and again on one connection.
        System.setProperty("jdk.tls.rejectClientInitiatedRenegotiation", "true");
        needsClientCertificate = settings.authorities.length > 0;
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(ownCertificate(settings), new char[0]);
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(authorities(settings));
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), needsClientCertificate ? trust.getTrustManagers() : null, null);
        context.getServerSessionContext().setSessionCacheSize(MAX_RESUMABLE);
        factory = context.getSocketFactory();
    }

    /** TLS on a connection that was accepted; the handshake begins with the first read. */
    SSLSocket over(ClientSocket socket) throws IOException {
        SSLSocket secured = (SSLSocket) factory.createSocket(new RawConnection(socket), null, true);
        secured.setUseClientMode(false);
        secured.setNeedClientAuth(needsClientCertificate);
        return secured;
    }

    private static KeyStore ownCertificate(TlsSettings settings) throws GeneralSecurityException, IOException {
        PrivateKey key = KeyFactory.getInstance(settings.algorithm)
            .generatePrivate(new PKCS8EncodedKeySpec(settings.key));
        Certificate[] chain = new Certificate[settings.chain.length];
        for (int index = 0; index < chain.length; index++) {
            chain[index] = certificate(settings.chain[index]);
        }
        KeyStore store = empty();
        store.setKeyEntry("gateway", key, new char[0], chain);
        return store;
    }

    private static KeyStore authorities(TlsSettings settings) throws GeneralSecurityException, IOException {
        KeyStore store = empty();
        for (int index = 0; index < settings.authorities.length; index++) {
            store.setCertificateEntry("authority-" + index, certificate(settings.authorities[index]));
        }
        return store;
    }

    private static KeyStore empty() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Certificate certificate(byte[] octets) throws GeneralSecurityException {
        return CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(octets));
    }
}
