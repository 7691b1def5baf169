"""The base of data that calls return: pydantic models that do not change."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Data that does not change."""

    model_config = ConfigDict(frozen=True)
