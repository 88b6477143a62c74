"""The settings of logins in ``gateway.yaml``: users with a password or a token, and the proxy for HTTP."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from gateway.config.types import AmqpName, HttpUrl, SecretSource, without_colon
from gateway.yaml_documents import StrictModel

_PRINTABLE = r"^[\x21-\x7e]{1,255}$"


def _scopes(text: str) -> str:
    if not all(0x20 <= ord(letter) < 0x7F and letter not in '"\\' for letter in text):  # noqa: PLR2004  ASCII
        raise ValueError("has printable ASCII only, scopes separated by spaces (RFC 6749 section 3.3)")
    return text


class OAuthSettings(StrictModel):
    """A client of OAuth 2 whose tokens are used in the place of a password.

    Attributes:
        token_url: the URL of the token endpoint.
        client_id: the name of the client.
        client_secret: the secret of the client.
        scope: the requested scope; default: that of the issuer.
    """

    token_url: HttpUrl
    client_id: Annotated[str, Field(pattern=_PRINTABLE)]
    client_secret: SecretSource
    scope: Annotated[str, Field(max_length=1000), AfterValidator(_scopes)] = ""


class LoginSettings(StrictModel):
    """A user of a broker.

    Attributes:
        user: the name of the user; with ``oauth`` the one by which the broker knows who has the token.
        password: the password.
        oauth: the client whose tokens are used in its place.
    """

    by_http: ClassVar[bool] = False

    user: AmqpName
    password: SecretSource | None = None
    oauth: OAuthSettings | None = None

    @model_validator(mode="after")
    def _has_one_secret(self) -> Self:
        if (self.password is None) is (self.oauth is None):
            both = "both are given" if self.password is not None else "neither is given"
            raise ValueError(f"'password' is required, or 'oauth' in its place: {both}")
        if self.by_http and self.password is not None:
            try:
                without_colon(self.user)
            except ValueError as error:
                raise ValueError(f"'user': {error}") from error
        return self


class HttpLoginSettings(LoginSettings):
    """A user of a broker who logs in over HTTP, too."""

    by_http: ClassVar[bool] = True


class ProxySettings(StrictModel):
    """A proxy for requests over HTTP.

    Attributes:
        url: the URL of the proxy.
        user: the user of the proxy; default: none.
        password: the password of that user.
    """

    url: HttpUrl
    user: Annotated[str, Field(min_length=1, max_length=255), AfterValidator(without_colon)] | None = None
    password: SecretSource | None = None

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        if (self.user is None) is not (self.password is None):
            raise ValueError("'user' and 'password' are needed together, or neither")
        return self
