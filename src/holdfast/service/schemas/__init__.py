"""The JSON of requests and answers: msgspec types, from which the OpenAPI document is made."""
