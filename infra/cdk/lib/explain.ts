import { Validations } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

/**
 * Tells cdk-nag why a rule does not apply here. An aws-cdk-lib from before Validations gives
 * a library no way to say so without a dependency on cdk-nag: there the app has to.
 */
export function explain(construct: IConstruct, id: string, reason: string): void {
  (Validations as typeof Validations | undefined)?.of(construct).acknowledge({ id, reason });
}
